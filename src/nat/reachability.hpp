#pragma once
// Whether others can dial this node: measured by asking them to, never assumed.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace collab {
class TaskGroup;
}

namespace collab::nat {

enum class State : std::uint8_t {
  unknown,        ///< nobody has judged yet
  open,           ///< others dial us at our own port
  mapped,         ///< others dial us at a port that the router maps to ours
  outbound_only,  ///< we can only dial: by wish, or because dial-backs fail
  relayed,        ///< the same, but relays lead others to us: for signals, so it is planned with as with the former
};
std::string_view name(State) noexcept;
/// Whether others may plan with a peer that has to be dialled: it owns segments and serves the directory.
bool can_be_dialled(State) noexcept;
/// It has been judged, and nobody dials it but through a relay.
bool only_dials(State) noexcept;

/// What others found out, all at one time.
struct Verdicts {
  std::size_t ok = 0;
  std::size_t failed = 0;   ///< refused or silent
  std::size_t servers = 0;  ///< that could be asked at all
  bool mapped = false;      ///< who got through did so at the mapped port
};

/// The state after `verdicts`, and whether too few judged to be sure. Three of three decide; while fewer than three
/// servers exist one verdict counts, weakly. Servers that disagree, or that do not judge, leave `before` as it is.
struct Judgement {
  State state = State::unknown;
  bool weak = true;
  bool operator==(const Judgement&) const = default;
};
Judgement judge(const Judgement& before, const Verdicts& verdicts) noexcept;

/// Thread safety: none; belongs to the node's loop.
class Reachability {
 public:
  struct Options {
    std::uint16_t port = 0;         ///< where this node listens; 0: nowhere, by wish, so it is outbound only
    std::uint16_t wss_port = 0;     ///< where it listens for WebSockets too; 0: nowhere
    std::size_t servers_max = 3;    ///< asked at a time
    std::size_t addresses_max = 8;  ///< published: each server may name another host for each port
    Duration timeout = std::chrono::seconds(8);      ///< of one question; the server knocks for at most 5 s
    Duration look = std::chrono::milliseconds(100);  ///< how soon the first connection is noticed
    Duration nobody = std::chrono::seconds(1);       ///< connected for so long: nobody to wait for
    Duration again_unknown = std::chrono::seconds(5);
    Duration again_weak = std::chrono::minutes(2);  ///< at once when there are more servers than judged
    Duration again = std::chrono::minutes(10);      ///< ± 20 %
  };
  /// Who is connected, so can be asked without dialling anybody.
  using Connected = std::function<std::vector<PeerId>()>;

  Reachability(net::Endpoint& endpoint, Clock& clock, Random random, Log& log, asio::any_io_executor executor,
               Connected connected, Options options);
  Reachability(const Reachability&) = delete;
  Reachability& operator=(const Reachability&) = delete;

  /// Asks at once when there is somebody to ask, then again and again. Until cancelled.
  Task<> run();
  /// Something suggests that it has changed: a new own address, peers that fail to dial us.
  void doubt();
  /// The router promises that this port of its leads to ours; nothing: it does not, or not any more. Asked about at
  /// once, and believed when others got through.
  void offer(std::optional<std::uint16_t> mapped_port);
  /// The same of the one for WebSockets.
  void offer_web(std::optional<std::uint16_t> mapped_port);

  State state() const noexcept {
    return judgement_.state == State::outbound_only && relayed_ ? State::relayed : judgement_.state;
  }
  /// Whether others are to plan with this node as with one that only dials: it has been judged so, or the first verdict
  /// is still to come. A router that drops what it was not asked for makes that take five seconds, in which who says
  /// that it can be dialled would lead groups, and own segments, that nobody reaches. Where nobody judges it is
  /// believed to be dialled.
  bool counts_as_client() const noexcept;
  /// Whether the first verdict is there, or there is nobody whose it could be.
  bool judged() const noexcept { return first_over_ || options_.port == 0; }
  /// Whether a relay leads others here.
  void led_to_by_relay(bool is);
  bool weak() const noexcept { return judgement_.weak; }
  /// Where others have dialled us, bare TCP first, and of WebSockets at least one if there is one; empty unless
  /// `can_be_dialled`. At most `addresses_max`.
  const std::vector<net::Address>& addresses() const noexcept { return addresses_; }
  /// Who did, sorted.
  const std::vector<PeerId>& confirmed_by() const noexcept { return confirmed_by_; }
  /// Notified after each check that changed one of the above; not when only `counts_as_client` has.
  Signal& changed() noexcept { return changed_; }

 private:
  struct Answers;
  Task<> check();
  void ask_all(TaskGroup& tasks, std::uint16_t port, Answers& answers);
  void ask_web(TaskGroup& tasks, const PeerId& server, Answers& answers);
  Task<> ask_bare_then_web(TaskGroup& tasks, PeerId server, std::uint16_t port, Answers& answers);
  Task<> ask_web_port(PeerId server, Answers& answers);
  Task<> ask(PeerId server, std::uint16_t port, net::Leg leg, Answers& answers);
  void conclude(const Answers& answers);
  bool is_mapped(const net::Address& address) const;
  std::vector<PeerId> judges() const;
  std::vector<PeerId> choose();
  Duration pause();

  net::Endpoint& endpoint_;
  Clock& clock_;
  Random random_;
  Log& log_;
  Connected connected_;
  Options options_;
  Judgement judgement_;
  std::vector<net::Address> addresses_;
  std::vector<PeerId> confirmed_by_;
  std::size_t judged_by_ = 0;  ///< servers in the last check
  std::optional<std::uint16_t> mapped_port_;
  std::optional<std::uint16_t> mapped_web_port_;
  Signal changed_;
  Signal doubted_;
  bool doubt_ = false;
  bool checking_ = false;
  std::size_t unanswered_ = 0;  ///< checks that nobody said a word to: a line was down
  std::size_t busy_ = 0;        ///< and those in which somebody was asked too often
  bool fell_ = false;           ///< by the last check
  bool first_over_ = false;     ///< the first check, whatever was said; or there was nobody to ask, or to answer
  bool relayed_ = false;
  Signal progress_;  ///< of a check
};

}  // namespace collab::nat
