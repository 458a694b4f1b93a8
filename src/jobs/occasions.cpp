#include "jobs/occasions.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "jobs/system_bus.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace collab::jobs {
namespace {

namespace fs = std::filesystem;

constexpr BusProperty kMetered = {"org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager",
                                  "org.freedesktop.NetworkManager", "Metered"};
constexpr BusProperty kIdle = {"org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager",
                               "IdleHint"};
// NetworkManager's: told so, and found out
constexpr std::uint32_t kMeteredYes = 1;
constexpr std::uint32_t kMeteredLikely = 3;

constexpr double kLoadSeconds = 10;
constexpr double kLoadMax = 0.5;

std::string first_word(const fs::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

/// Some battery discharges, and no charger is in.
bool is_on_battery(const fs::path& power) {
  std::error_code error;
  bool discharging = false;
  for (const auto& entry : fs::directory_iterator(power, error)) {
    const std::string type = first_word(entry.path() / "type");
    if (type != "Battery" && first_word(entry.path() / "online") == "1") return false;
    const bool of_machine = type == "Battery" && first_word(entry.path() / "scope") != "Device";  // a mouse has one too
    if (of_machine && first_word(entry.path() / "status") == "Discharging") discharging = true;
  }
  return discharging;
}

/// Time of processors that others than this program took, as a share of all that there was.
class OthersLoad {
 public:
  explicit OthersLoad(fs::path processes) : processes_(std::move(processes)), before_(look()) {}

  bool is_high() {
    const Ticks now = look();
    const double least = kLoadSeconds * static_cast<double>(::sysconf(_SC_CLK_TCK)) * now.processors;
    if (now.all - before_.all < least || now.processors == 0) return high_;
    high_ = now.others - before_.others > kLoadMax * (now.all - before_.all);
    before_ = now;
    return high_;
  }

 private:
  struct Ticks {
    double all = 0;
    double others = 0;
    double processors = 0;
  };

  /// The first line of `stat` has the ticks of all processors: user, nice, system, idle, iowait and so on; then comes
  /// one for each. Of this program, behind its name in brackets, fields 14 and 15 are its own.
  Ticks look() const {
    Ticks ticks;
    std::ifstream lines(processes_ / "stat");
    std::string line;
    for (bool first = true; std::getline(lines, line) && line.starts_with("cpu"); first = false) {
      if (!first) ++ticks.processors;
      std::istringstream words(line);
      std::string name;
      words >> name;
      double value = 0;
      for (int field = 0; first && field < 8 && words >> value; ++field) {
        ticks.all += value;
        if (field != 3 && field != 4) ticks.others += value;
      }
    }
    std::ifstream own(processes_ / "self/stat");
    std::getline(own, line, '\0');
    std::istringstream words(line.substr(line.rfind(')') + 1));
    std::string word;
    for (int field = 3; field <= 15 && words >> word; ++field)
      if (field >= 14) ticks.others -= std::strtod(word.c_str(), nullptr);
    return ticks;
  }

  fs::path processes_;
  Ticks before_;
  bool high_ = false;
};

bool is_metered(SystemBus& bus) {
  const auto metered = bus.number(kMetered);
  return metered == kMeteredYes || metered == kMeteredLikely;
}

/// Says once that nobody knows.
std::function<bool()> user_is_here(std::shared_ptr<SystemBus> bus, std::function<void(const std::string&)> note) {
  return [bus = std::move(bus), note = std::move(note), told = false]() mutable {
    const auto idle = bus->flag(kIdle);
    if (!idle && !std::exchange(told, true))
      note("nothing here tells whether somebody is at this machine (systemd-logind): --rest-on user does nothing");
    return idle == false;
  };
}

}  // namespace

std::vector<node::Occasion> occasions_in(const std::string& names, std::function<void(const std::string&)> note,
                                         const MachinePlaces& places) {
  std::vector<node::Occasion> occasions;
  const auto bus = std::make_shared<SystemBus>();
  std::istringstream words(names == "none" ? std::string() : names);
  for (std::string name; std::getline(words, name, ',');) {
    name.erase(0, name.find_first_not_of(' '));
    if (name == "battery") {
      occasions.push_back({"this machine runs on its battery", "a minute after it is plugged in",
                           [power = places.power] { return is_on_battery(power); }});
    } else if (name == "metered") {
      occasions.push_back({"this machine's line is metered", "a minute after another line is there",
                           [bus] { return is_metered(*bus); }});
    } else if (name == "user") {
      occasions.push_back({"somebody is at this machine", "a minute after it was left alone", user_is_here(bus, note)});
    } else if (name == "load") {
      const auto load = std::make_shared<OthersLoad>(places.processes);
      occasions.push_back({"they take most of this machine", "other programs leave it alone for a minute",
                           [load] { return load->is_high(); }});
    } else {
      throw Failure(ExitCode::usage, fmt::format("--rest-on: \"{}\" is nothing to rest on", printable(name)),
                    "name some of battery, metered, user and load, with commas between them, or none");
    }
  }
  return occasions;
}

}  // namespace collab::jobs
