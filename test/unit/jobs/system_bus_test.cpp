#include "jobs/system_bus.hpp"

#include "base/file.hpp"
#include "jobs/occasions.hpp"
#include "support/temp_folder.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <thread>
#include <unistd.h>

#include "support/doctest.hpp"

namespace collab::jobs {
namespace {

constexpr const char* kRules = R"(<busconfig><type>session</type><listen>unix:path={}</listen>
<policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>)";

/// A bus of its own, at the address where programs look for that of the system.
class Bus {
 public:
  Bus() {
    const auto file = folder_.path() / "bus.conf";
    const std::string socket = (folder_.path() / "socket").string();
    write_file(file, fmt::format(kRules, socket));
    std::array<int, 2> ready{};
    REQUIRE(::pipe(ready.data()) == 0);
    daemon_ = ::fork();
    if (daemon_ == 0) {
      const std::string config = "--config-file=" + file.string();
      const std::string print = fmt::format("--print-address={}", ready[1]);
      ::execlp("dbus-daemon", "dbus-daemon", "--nofork", config.c_str(), print.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ready[1]);
    char letter = 0;
    REQUIRE_MESSAGE(::read(ready[0], &letter, 1) == 1, "dbus-daemon does not start; tools/setup installs it");
    ::close(ready[0]);
    ::setenv("DBUS_SYSTEM_BUS_ADDRESS", ("unix:path=" + socket).c_str(), 1);
  }
  ~Bus() {
    ::unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    ::kill(daemon_, SIGTERM);
    ::waitpid(daemon_, nullptr, 0);
  }
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

 private:
  test::TempFolder folder_;
  ::pid_t daemon_ = 0;
};

/// NetworkManager and logind, as far as they are asked here. May also be deaf.
class Services {
 public:
  Services() {
    REQUIRE(sd_bus_open_system(&bus_) >= 0);
    static const std::array<sd_bus_vtable, 3> line = {
        sd_bus_vtable SD_BUS_VTABLE_START(0), SD_BUS_PROPERTY("Metered", "u", metered_of, 0, 0), SD_BUS_VTABLE_END};
    static const std::array<sd_bus_vtable, 3> sessions = {
        sd_bus_vtable SD_BUS_VTABLE_START(0), SD_BUS_PROPERTY("IdleHint", "b", idle_of, 0, 0), SD_BUS_VTABLE_END};
    add("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager",
        line.data());
    add("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", sessions.data());
    thread_ = std::thread([this] {
      while (!stop) {
        if (deaf || sd_bus_process(bus_, nullptr) == 0) (void)sd_bus_wait(bus_, 1000);
      }
    });
  }
  ~Services() {
    stop = true;
    thread_.join();
    sd_bus_flush_close_unref(bus_);
  }
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  std::atomic<std::uint32_t> metered = 2;
  std::atomic<bool> idle = true;
  std::atomic<bool> deaf = false;
  std::atomic<bool> stop = false;

 private:
  void add(const char* name, const char* path, const char* interface, const sd_bus_vtable* properties) {
    REQUIRE(sd_bus_add_object_vtable(bus_, nullptr, path, interface, properties, this) >= 0);
    REQUIRE(sd_bus_request_name(bus_, name, 0) >= 0);
  }
  static int metered_of(sd_bus*, const char*, const char*, const char*, sd_bus_message* answer, void* services,
                        sd_bus_error*) {
    return sd_bus_message_append(answer, "u", static_cast<Services*>(services)->metered.load());
  }
  static int idle_of(sd_bus*, const char*, const char*, const char*, sd_bus_message* answer, void* services,
                     sd_bus_error*) {
    return sd_bus_message_append(answer, "b", static_cast<Services*>(services)->idle ? 1 : 0);
  }

  sd_bus* bus_ = nullptr;
  std::thread thread_;
};

}  // namespace

TEST_CASE("system bus: a metered line is one that NetworkManager was told of or takes for such") {
  const Bus bus;
  Services services;
  const auto occasions = occasions_in("metered", [](const std::string&) {});
  const auto& shows = occasions.front().shows;
  CHECK_FALSE(shows());
  for (const std::uint32_t metered : {0U, 1U, 2U, 3U, 4U}) {
    CAPTURE(metered);
    services.metered = metered;
    CHECK(shows() == (metered == 1 || metered == 3));
  }
}

TEST_CASE("system bus: somebody is at the machine while logind does not call it idle") {
  const Bus bus;
  Services services;
  const auto occasions = occasions_in("user", [](const std::string& text) { FAIL(text); });
  CHECK_FALSE(occasions.front().shows());
  services.idle = false;
  CHECK(occasions.front().shows());
}

TEST_CASE(
    "system bus: without a bus, or with a silent one, without the service, or when that is deaf, nobody knows, and it "
    "is said once") {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  const auto nobody_knows = [&] {
    const auto occasions = occasions_in("metered,user", note);
    for (int i = 0; i < 2; ++i)
      for (const auto& occasion : occasions) CHECK_FALSE(occasion.shows());
  };
  ::setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/at/all", 1);
  nobody_knows();
  CHECK(notes.size() == 1);
  const test::TempFolder folder;
  const std::string socket = (folder.path() / "socket").string();
  boost::asio::io_context loop;
  const boost::asio::local::stream_protocol::acceptor silent(loop, {socket});
  ::setenv("DBUS_SYSTEM_BUS_ADDRESS", ("unix:path=" + socket).c_str(), 1);
  nobody_knows();
  CHECK(notes.size() == 2);
  const Bus bus;
  nobody_knows();
  CHECK(notes.size() == 3);
  Services services;
  services.metered = 1;
  services.deaf = true;
  nobody_knows();
  CHECK(notes.size() == 4);
}

}  // namespace collab::jobs
