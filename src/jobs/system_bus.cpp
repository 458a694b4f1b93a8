#include "jobs/system_bus.hpp"

#include <systemd/sd-bus.h>

namespace collab::jobs {
namespace {

constexpr std::uint64_t kPatienceUs = 200'000;
constexpr auto kTryAgain = std::chrono::seconds(30);

struct Release {
  void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, Release>;

}  // namespace

void SystemBus::Close::operator()(sd_bus* bus) const {
  sd_bus_close_unref(bus);
}

/// A call would wait much longer for a bus that does not greet.
bool SystemBus::open() {
  const auto now = std::chrono::steady_clock::now();
  if (bus_ && sd_bus_is_ready(bus_.get()) > 0) {
    while (sd_bus_process(bus_.get(), nullptr) > 0) {  // answers that came too late
    }
    return true;
  }
  bus_.reset();
  if (failed_at_ && now - *failed_at_ < kTryAgain) return false;
  failed_at_ = now;
  sd_bus* fresh = nullptr;
  if (sd_bus_open_system(&fresh) < 0) return false;
  bus_.reset(fresh);
  const auto deadline = now + std::chrono::microseconds(kPatienceUs);
  while (sd_bus_is_ready(fresh) == 0 && std::chrono::steady_clock::now() < deadline) {
    const int progress = sd_bus_process(fresh, nullptr);
    if (progress < 0 || (progress == 0 && sd_bus_wait(fresh, kPatienceUs) < 0)) return false;
  }
  if (sd_bus_is_ready(fresh) > 0) failed_at_.reset();
  return !failed_at_;
}

bool SystemBus::read(const BusProperty& property, char type, void* value) {
  if (!open()) return false;
  sd_bus_message* made = nullptr;
  if (sd_bus_message_new_method_call(bus_.get(), &made, property.service, property.path,
                                     "org.freedesktop.DBus.Properties", "Get") < 0)
    return false;
  const Message question(made);
  if (sd_bus_message_set_auto_start(question.get(), 0) < 0) return false;
  if (sd_bus_message_append(question.get(), "ss", property.interface, property.name) < 0) return false;
  sd_bus_message* came = nullptr;
  if (sd_bus_call(bus_.get(), question.get(), kPatienceUs, nullptr, &came) < 0) return false;
  const Message answer(came);
  const char kind[] = {type, '\0'};
  return sd_bus_message_enter_container(answer.get(), 'v', kind) > 0 &&
         sd_bus_message_read_basic(answer.get(), type, value) > 0;
}

std::optional<std::uint32_t> SystemBus::number(const BusProperty& property) {
  std::uint32_t value = 0;
  return read(property, 'u', &value) ? std::optional(value) : std::nullopt;
}

std::optional<bool> SystemBus::flag(const BusProperty& property) {
  int value = 0;
  return read(property, 'b', &value) ? std::optional(value != 0) : std::nullopt;
}

}  // namespace collab::jobs
