#include "jobs/occasions.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "support/temp_folder.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include "support/doctest.hpp"

namespace collab::jobs {
namespace {

/// A machine as Linux would show it.
struct Machine {
  std::vector<node::Occasion> occasions(const std::string& names) {
    return occasions_in(names, [this](const std::string& text) { notes.push_back(text); },
                        {folder.path() / "power", folder.path() / "proc"});
  }
  void supply(const std::string& name, const std::string& file, const std::string& text) const {
    write_file(folder.path() / "power" / name / file, text + "\n");
  }
  /// Two processors, busy for so many seconds in all, of which this program took `own`.
  void ran(double seconds, double busy, double own) const {
    const auto ticks = [](double s) { return static_cast<long>(s * static_cast<double>(::sysconf(_SC_CLK_TCK))); };
    write_file(folder.path() / "proc/stat",
               fmt::format("cpu  {} 0 0 {} 0 0 0 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\nintr 7\n", ticks(busy),
                           ticks(2 * seconds - busy)));
    write_file(
        folder.path() / "proc/self/stat",
        fmt::format("42 (a name) with ) brackets) R 1 1 1 0 -1 0 0 0 0 0 {} {} 0 0\n", ticks(own / 2), ticks(own / 2)));
  }
  test::TempFolder folder;
  std::vector<std::string> notes;
};

}  // namespace

TEST_CASE("occasions: a machine is on its battery when that empties and no charger is in") {
  Machine machine;
  const auto occasions = machine.occasions("battery");
  REQUIRE(occasions.size() == 1);
  const auto& shows = occasions.front().shows;
  CHECK_FALSE(shows());  // no power supplies at all
  machine.supply("mouse", "type", "Battery");
  machine.supply("mouse", "scope", "Device");
  machine.supply("mouse", "status", "Discharging");
  CHECK_FALSE(shows());
  machine.supply("BAT0", "type", "Battery");
  machine.supply("BAT0", "status", "Discharging");
  machine.supply("AC", "type", "Mains");
  machine.supply("AC", "online", "0");
  CHECK(shows());
  machine.supply("AC", "online", "1");
  CHECK_FALSE(shows());
}

TEST_CASE("occasions: what other programs take is load, and what this one computes is none") {
  Machine machine;
  machine.ran(100, 50, 20);
  const auto occasions = machine.occasions("load");
  REQUIRE(occasions.size() == 1);
  const auto& shows = occasions.front().shows;
  machine.ran(105, 60, 20);
  CHECK_FALSE(shows());  // a moment is no load
  machine.ran(111, 72, 42);
  CHECK_FALSE(shows());  // it is all ours
  machine.ran(122, 92, 46);
  CHECK(shows());  // 16 of 22 seconds are theirs
  machine.ran(124, 92, 46);
  CHECK(shows());
  machine.ran(133, 94, 46);
  CHECK_FALSE(shows());
}

TEST_CASE("occasions: several by commas, none, and what nobody can rest on") {
  Machine machine;
  CHECK(machine.occasions("battery, metered,user,load").size() == 4);
  CHECK(machine.occasions("none").empty());
  for (const char* wrong : {"rain", "battery,", "none,battery", "battery metered"}) {
    CAPTURE(wrong);
    if (std::string(wrong) == "battery,") {
      CHECK(machine.occasions(wrong).size() == 1);
    } else {
      CHECK_THROWS_AS((void)machine.occasions(wrong), Failure);
    }
  }
}

TEST_CASE("occasions: nothing shows where there is no proc") {
  Machine machine;
  CHECK_FALSE(machine.occasions("load").front().shows());
}

}  // namespace collab::jobs
