#pragma once
// When a proxy may be asked: a wrong login is told to it once, not by each dial, for some lock a user out who fails
// often.

#include "base/clock.hpp"
#include "base/signal.hpp"

#include <memory>
#include <optional>

namespace collab::net {

/// Thread safety: none; belongs to the node's loop.
class ProxyGate {
 public:
  /// `one_by_one`: until the proxy has let something through, one dial asks at a time; for those that tell a login.
  ProxyGate(const asio::any_io_executor& executor, Clock& clock, bool one_by_one)
      : clock_(clock), one_by_one_(one_by_one), moved_(executor) {}
  ProxyGate(const ProxyGate&) = delete;
  ProxyGate& operator=(const ProxyGate&) = delete;

  /// What the proxy has said of our login, while it is too soon to ask again, or somebody is doing so. From a refusal
  /// on for `kPauseMin`, then one dial may ask; each further refusal doubles that, to `kPauseMax`.
  std::optional<boost::system::error_code> barred() const;

  /// The right to ask, for as long as this lives.
  class Turn {
   public:
    explicit Turn(ProxyGate& gate) : gate_(gate) { ++gate_.asking_; }
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// How it answered; without error: it leads on.
    void answered(const boost::system::error_code& error);

   private:
    ProxyGate& gate_;
  };
  /// Waits for one. Errors: `barred()`; `late` after `deadline`.
  Task<Result<std::unique_ptr<Turn>>> enter(TimePoint deadline);

  static constexpr Duration kPauseMin = std::chrono::minutes(1);
  static constexpr Duration kPauseMax = std::chrono::minutes(10);

 private:
  Clock& clock_;
  bool one_by_one_;
  bool trusted_ = false;  ///< it has let something through since it last refused our login
  std::size_t asking_ = 0;
  boost::system::error_code refusal_;
  TimePoint again_{};
  Duration pause_{};
  Signal moved_;
};

}  // namespace collab::net
