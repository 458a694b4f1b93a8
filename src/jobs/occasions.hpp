#pragma once
// What the owner of a machine may wish a peer to rest for, as the machine shows it.

#include "node/agenda.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace collab::jobs {

/// Where Linux shows it.
struct MachinePlaces {
  std::filesystem::path power = "/sys/class/power_supply";
  std::filesystem::path processes = "/proc";
};

/// `names`, by commas, or "none":
///   battery  no charger is in
///   metered  NetworkManager takes the line for one that is paid by the byte; without it nobody knows, and none is
///   user     somebody is at the machine, as systemd-logind says; `note` is told once where that does not run
///   load     others took more than half of the processors in the last ten seconds
/// Throws `Failure(usage)` for other names.
std::vector<node::Occasion> occasions_in(const std::string& names, std::function<void(const std::string&)> note,
                                         const MachinePlaces& places = {});

}  // namespace collab::jobs
