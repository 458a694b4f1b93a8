#include "crypto/access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sys/stat.h>
#include <utility>

namespace collab {
namespace {

constexpr std::size_t kLineBytesMax = 1024;

/// Changes when the file does, also within one second; "-" when there is none.
std::string stamp_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "-";
  return fmt::format("{} {} {}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

struct ListFile {
  std::set<PeerId> peers;
  std::string problem;
};

ListFile read_list(const std::filesystem::path& file, std::size_t peers_max) {
  ListFile list;
  std::ifstream in(file);
  if (!in) list.problem = fmt::format("cannot read the allow-list {}", file.string());
  std::string line;
  for (std::size_t number = 1; list.problem.empty() && std::getline(in, line); ++number) {
    const auto refuse = [&](const std::string& why) {
      list.problem = fmt::format("{}, line {}: {}", file.string(), number, why);
    };
    if (line.size() > kLineBytesMax) refuse("too long");
    line.resize(std::min(line.size(), line.find('#')));
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    const auto id = PeerId::parse_listed(std::string_view(line).substr(first, line.find_last_not_of(" \t\r") - first + 1));
    if (!id) {
      refuse(id.error().message());
    } else if (list.peers.insert(*id); list.peers.size() > peers_max) {
      refuse(fmt::format("more than {} peers", peers_max));
    }
  }
  if (list.problem.empty() && in.bad()) list.problem = fmt::format("cannot read the allow-list {}", file.string());
  return list;
}

Decision no(std::string reason) {
  return {false, std::move(reason)};
}

}  // namespace

std::string_view name(Admission admission) noexcept {
  switch (admission) {
    case Admission::open: return "open";
    case Admission::allow_list: return "allow-list";
    case Admission::token: return "token";
  }
  return "unknown";
}

Decision Access::may(const PeerId& peer, Claim claim) const {
  if (peer == options_.own || peer == options_.authority) return {true, {}};
  if (const auto found = blocks_.find(peer); found != blocks_.end() && now_ < found->second.until)
    return no(fmt::format("blocked here for another {:.0f} s after it broke the protocol",
                          to_seconds(found->second.until - now_)));
  switch (options_.admission) {
    case Admission::open: break;
    case Admission::allow_list:
      if (!allowed_.contains(peer)) return no(fmt::format("{} is not on the allow-list", peer.text()));
      break;
    case Admission::token: return no("this run admits by token, and none was shown");
  }
  if (claim == Claim::coordinate) return no("only the run's authority may coordinate");
  return {true, {}};
}

TimePoint Access::block(const PeerId& peer) {
  const auto known = blocks_.find(peer);
  const Duration length =
      known == blocks_.end() ? options_.block_min : std::min(2 * known->second.length, options_.block_max);
  if (known == blocks_.end() && blocks_.size() >= options_.blocks_max) {
    const auto ends_first = std::min_element(
        blocks_.begin(), blocks_.end(), [](const auto& a, const auto& b) { return a.second.until < b.second.until; });
    blocks_.erase(ends_first);
  }
  blocks_[peer] = Block{now_ + length, length};
  return now_ + length;
}

std::optional<Access::Reloaded> Access::refresh(TimePoint now) {
  now_ = now;
  std::erase_if(blocks_, [&](const auto& entry) { return entry.second.until + options_.block_max <= now; });
  if (options_.admission != Admission::allow_list) return std::nullopt;
  if (looked_ && now < *looked_ + options_.reload_period) return std::nullopt;
  const bool first = !looked_.has_value();
  looked_ = now;
  std::string stamp = stamp_of(options_.allow_list);
  if (!first && stamp == stamp_) return std::nullopt;
  stamp_ = std::move(stamp);
  return reload();
}

Access::Reloaded Access::reload() {
  ListFile list = read_list(options_.allow_list, options_.allowed_max);
  if (list.problem.empty()) allowed_ = std::move(list.peers);
  return {allowed_.size(), std::move(list.problem)};
}

}  // namespace collab
