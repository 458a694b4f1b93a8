#include "jobs/owner.hpp"

#include "base/file.hpp"
#include "base/task_group.hpp"
#include "cli/program.hpp"
#include "jobs/occasions.hpp"
#include "jobs/peer_run.hpp"
#include "monitor/status_socket.hpp"
#include "node/runtime.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace collab::jobs {
namespace {

constexpr auto kLookPeriod = std::chrono::seconds(1);
constexpr auto kAsked = std::chrono::milliseconds(100);

node::LocalTime now() {
  return node::local_time(std::time(nullptr));
}

node::Agenda::Options wishes_in(const node::Config& config, const std::function<void(const std::string&)>& note) {
  node::Agenda::Options options;
  options.hours = node::WeeklyHours(config.text("hours"));
  if (config.has("limit-day")) options.day_bytes_max = config.real("limit-day") * 1e9;
  if (config.has("limit-month")) options.month_bytes_max = config.real("limit-month") * 1e9;
  options.rest_on = occasions_in(config.text("rest-on"), note);
  options.home = home_of(config);
  return options;
}

OutputMode output_mode(const node::Config& config) {
  if (config.toggle("json")) return OutputMode::json;
  return config.toggle("quiet") ? OutputMode::quiet : OutputMode::people;
}

/// For its user alone, as whoever makes the key there would.
void make_home(const std::filesystem::path& home) {
  std::error_code error;
  if (std::filesystem::create_directories(home, error))
    std::filesystem::permissions(home, std::filesystem::perms::owner_all, error);
  if (error) fail_file("make", home, error.value());
}

/// Answers in the home while nothing else of the program runs.
class Answering {
 public:
  Answering(const std::filesystem::path& home, std::string state) {
    runtime_.on_loop([&] {
      const monitor::StatusCommands commands{[state = std::move(state)] { return state; }, [this] { leave_ = true; }};
      socket_ = std::make_unique<monitor::StatusSocket>(runtime_.loop(), runtime_.clock(), log_, home, commands);
      tasks_ = std::make_unique<TaskGroup>(runtime_.loop(), rethrow);
      tasks_->spawn("status", socket_->run());
    });
  }
  ~Answering() {
    const auto stop = [this]() -> Task<> {
      co_await tasks_->stop();
      tasks_.reset();
      socket_.reset();
    };
    runtime_.call(stop());
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  bool asked_to_leave() const { return leave_; }

 private:
  Log log_;
  node::Runtime runtime_;
  std::unique_ptr<monitor::StatusSocket> socket_;
  std::unique_ptr<TaskGroup> tasks_;
  std::atomic<bool> leave_ = false;
};

}  // namespace

Owner::Owner(const node::Config& config)
    : config_(config),
      output_(output_mode(config), run_id_of(config)),
      agenda_(wishes_in(config, notes()), notes(), now()) {}

std::function<void(const std::string&)> Owner::notes() {
  return [this](const std::string& text) { output_.note(text); };
}

bool Owner::await() {
  rest_ = agenda_.rest(now());
  counted_ = 0;
  if (!rest_) return true;
  const cli::Interrupt interrupt;
  const nlohmann::json state = {{"resting", rest_->why}, {"until", rest_->until}};
  make_home(home_of(config_));
  const Answering answering(home_of(config_), state.dump());
  tell_rest();
  while (rest_) {
    const auto look = std::chrono::steady_clock::now() + kLookPeriod;
    while (std::chrono::steady_clock::now() < look) {
      if (interrupt.asked() || answering.asked_to_leave()) return false;
      std::this_thread::sleep_for(kAsked);
    }
    rest_ = agenda_.rest(now());
  }
  output_.done("takes part again");
  output_.json({{"event", "resumed"}});
  return true;
}

void Owner::tell_rest() {
  output_.done(fmt::format("rests until {}: {}", rest_->until, rest_->why));
  output_.json({{"event", "resting"}, {"why", rest_->why}, {"until", rest_->until}});
}

bool Owner::must_rest(std::uint64_t carried) {
  const auto time = std::chrono::steady_clock::now();
  if (rest_ || time - looked_at_ < kLookPeriod) return rests();
  looked_at_ = time;
  count(carried);
  rest_ = agenda_.rest(now());
  return rests();
}

void Owner::left(std::uint64_t carried, bool asked) {
  if (asked) rest_.reset();
  count(carried);
  agenda_.save(now());
}

void Owner::count(std::uint64_t carried) {
  agenda_.count(carried - std::exchange(counted_, carried), now());
}

}  // namespace collab::jobs
