#include "crypto/access.hpp"

#include "base/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <utility>

namespace collab {
namespace {

constexpr std::size_t kLineBytesMax = 1024;
constexpr std::int64_t kTokenRememberedMs = 3600 * 1000;  // after its end

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
    const auto id =
        PeerId::parse_listed(std::string_view(line).substr(first, line.find_last_not_of(" \t\r") - first + 1));
    if (!id) {
      refuse(id.error().message());
    } else if (list.peers.insert(*id); list.peers.size() > peers_max) {
      refuse(fmt::format("more than {} peers", peers_max));
    }
  }
  if (list.problem.empty() && in.bad()) list.problem = fmt::format("cannot read the allow-list {}", file.string());
  return list;
}

Decision no(Denial why, std::string reason) {
  return {false, std::move(reason), why, {}};
}

Decision no(TokenErrc why, const std::string& more) {
  return no(Denial::token, make_error_code(why).message() + more);
}

/// "2026-11-21 14:05 UTC".
std::string moment(std::int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm calendar{};
  if (::gmtime_r(&seconds, &calendar) == nullptr) return "the end of time";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", calendar.tm_year + 1900, calendar.tm_mon + 1,
                     calendar.tm_mday, calendar.tm_hour, calendar.tm_min);
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

void Access::change(Options options) {
  options_ = std::move(options);
  looked_.reset();
  stamp_.clear();
  allowed_.clear();
  blocks_.clear();
}

/// What the authority has said against this peer, or against the token it has shown.
std::optional<Decision> Access::taken_back(const PeerId& peer) const {
  const auto ban = banned_.find(peer);
  if (ban != banned_.end() && unix_ms_ >= ban->second.from_ms && unix_ms_ < ban->second.until_ms) {
    return no(Denial::banned, fmt::format("banned by the run's authority until {}: {}", moment(ban->second.until_ms),
                                          ban->second.reason));
  }
  const Token* token = token_of(peer);
  if (token == nullptr) return std::nullopt;
  const auto revoked = revoked_.find(token->serial);
  if (revoked == revoked_.end() || unix_ms_ < revoked->second.from_ms) return std::nullopt;
  return no(TokenErrc::revoked, fmt::format(" (serial {}): {}", token->serial, revoked->second.reason));
}

const Token* Access::token_of(const PeerId& peer) const {
  const auto found = tokens_.find(peer);
  return found == tokens_.end() ? nullptr : &found->second;
}

Decision Access::by_token(const PeerId& peer, Claim claim) const {
  const Token* token = token_of(peer);
  if (token == nullptr) return no(Denial::token, "this run admits by token, and none was shown that is valid");
  if (const auto holds = check_token(*token, peer, unix_ms_); !holds) {
    const bool over = holds.error() == TokenErrc::expired;
    return no(Denial::token,
              fmt::format("{}: {}", holds.error().message(), moment(over ? token->expires_ms : token->not_before_ms)));
  }
  if (!token->claims.has(claim)) {
    const Denial why = claim == Claim::join ? Denial::token : Denial::claim;
    return no(why, fmt::format("the token does not grant \"{}\", only: {}", name(claim), to_string(token->claims)));
  }
  return {true, {}, Denial::none, {}};
}

Decision Access::may(const PeerId& peer, Claim claim) const {
  if (auto never = taken_back(peer)) return *never;
  if (peer == options_.own || peer == options_.authority) return {true, {}, Denial::none, {}};
  if (const auto found = blocks_.find(peer); found != blocks_.end() && now_ < found->second.until) {
    const Duration left = found->second.until - now_;
    return {false, fmt::format("blocked here for another {:.0f} s after it broke the protocol", to_seconds(left)),
            Denial::blocked, left};
  }
  if (options_.admission == Admission::token) return by_token(peer, claim);
  if (options_.admission == Admission::allow_list && !allowed_.contains(peer))
    return no(Denial::list, fmt::format("{} is not on the allow-list", peer.text()));
  if (kMemberClaims.has(claim) || by_token(peer, claim)) return {true, {}, Denial::none, {}};
  return no(Denial::claim, "only the run's authority, and whom it gave a token for that, may coordinate");
}

Decision Access::own() const {
  if (auto never = taken_back(options_.own)) return *never;
  if (options_.admission != Admission::token || options_.own == options_.authority) return {true, {}, Denial::none, {}};
  return by_token(options_.own, Claim::join);
}

Result<> Access::show(const PeerId& peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (!options_.authority) return TokenErrc::other_authority;
  auto token = read_token(bytes, options_.run_id, *options_.authority);
  if (!token) return token.error();
  if (token->peer != peer) return TokenErrc::other_peer;
  const auto known = tokens_.find(peer);
  if (known == tokens_.end() && tokens_.size() >= options_.tokens_max) {
    const auto sooner = [](const auto& a, const auto& b) { return a.second.expires_ms < b.second.expires_ms; };
    tokens_.erase(std::min_element(tokens_.begin(), tokens_.end(), sooner));
  }
  const bool better = known == tokens_.end() || known->second.serial < token->serial ||
                      revoked_.contains(known->second.serial) || !check_token(known->second, peer, unix_ms_);
  if (better) tokens_.insert_or_assign(peer, std::move(*token));
  return {};
}

std::optional<std::int64_t> Access::expiry_of(const PeerId& peer) const {
  const Token* token = token_of(peer);
  return token == nullptr ? std::nullopt : std::optional(token->expires_ms);
}

void Access::obey(const std::vector<Ban>& bans) {
  banned_.clear();
  revoked_.clear();
  for (const Ban& ban : bans) {
    if (const auto* peer = std::get_if<PeerId>(&ban.target)) {
      banned_.insert_or_assign(*peer, ban);
    } else {
      revoked_.insert_or_assign(std::get<TokenSerial>(ban.target), ban);
    }
  }
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

std::optional<Access::Reloaded> Access::refresh(TimePoint now, std::int64_t unix_ms) {
  now_ = now;
  unix_ms_ = unix_ms;
  // kept for a while, so that its owner hears what is wrong
  std::erase_if(tokens_, [&](const auto& entry) { return entry.second.expires_ms + kTokenRememberedMs <= unix_ms; });
  std::erase_if(blocks_, [&](const auto& entry) { return entry.second.until + options_.block_max <= now; });
  if (options_.admission != Admission::allow_list) return std::nullopt;
  if (looked_ && now < *looked_ + options_.reload_period) return std::nullopt;
  const bool first = !looked_.has_value();
  looked_ = now;
  std::string stamp = file_stamp(options_.allow_list);
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
