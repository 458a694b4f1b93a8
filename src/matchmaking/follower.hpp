#pragma once
// A follower's half of a search, pure: whom it asked, how long it waits, and which group it accepts.

#include "matchmaking/terms.hpp"

#include <optional>
#include <string_view>
#include <variant>

namespace collab::matchmaking {

/// Waits for one leader at a time. Time goes in, what to do comes out.
class Follower {
 public:
  enum class Next { wait, ask_again, strike };

  explicit Follower(const Terms& terms) : terms_(terms) {}

  /// Turns to `leader`; what to send it.
  wire::Join ask(const PeerId& leader, std::uint64_t own_samples, TimePoint now);
  /// What anybody is sent who may lead.
  wire::Join join(std::uint64_t own_samples) const;
  /// Turns to nobody.
  void forget() {
    leader_.reset();
    accepted_ = false;
  }

  const std::optional<PeerId>& leader() const noexcept { return leader_; }
  bool accepted() const noexcept { return accepted_; }
  bool is_to_ask_again() const noexcept { return ask_again_at_.has_value(); }
  TimePoint asked_at() const noexcept { return asked_at_; }

  void on_accepted(const wire::Accepted&, TimePoint now);
  /// The leader pointed to somebody else. False when it happened too often: strike who redirects.
  bool count_redirect() { return ++redirects_ <= terms_.options.patience.redirects_max; }
  /// The leader does not know yet what we know: ask it once more, soon. It leads no more, whatever it promised.
  void ask_later(TimePoint now) {
    accepted_ = false;
    ask_again_at_ = now + terms_.options.patience.ask_again;
  }

  /// What the time since the last word of the leader means. `why` says it for the log when the answer is strike. A line
  /// that broke and is back may have lost our Join, or a Begin that nobody tells twice: then it is asked again.
  Next on_time(const Links&, TimePoint now, std::string_view& why) const;

 private:
  const Terms& terms_;
  std::optional<PeerId> leader_;
  bool accepted_ = false;
  TimePoint asked_at_{};
  TimePoint leader_deadline_ = TimePoint::max();
  std::optional<TimePoint> ask_again_at_;
  unsigned redirects_ = 0;  // since it was accepted
};

/// Whether this peer may take part in the group that a leader shows it; if not, why (averaging.md 7).
std::variant<Group, RefusalReason> judge(const Terms&, const wire::Begin&);

}  // namespace collab::matchmaking
