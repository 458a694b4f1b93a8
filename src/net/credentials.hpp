#pragma once
// What this node shows of itself, and what comes of the newer tokens that others show while they are connected.

#include "base/log.hpp"
#include "base/signal.hpp"
#include "crypto/access.hpp"
#include "net/endpoint.hpp"

#include <set>
#include <vector>

namespace collab::net {

/// The row of net.renew.
Method renew_method();

/// One token at a time. Thread safety: none; belongs to the node's loop.
class Credentials {
 public:
  /// `endpoint` is not used before `run`. All references outlive it.
  Credentials(Endpoint& endpoint, asio::any_io_executor loop, Clock& clock, Log& log, Access& access);
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// Answers net.renew.
  Handler handler();
  /// What hellos carry; empty: nothing.
  const Bytes& token() const noexcept { return token_; }
  /// Hellos carry `token` from now on; `connected` are told by net.renew. Tried once each: whoever does not hear of it
  /// closes the connection when the old one expires, and the next hello carries the new one.
  void present(Bytes token, const std::vector<PeerId>& connected);
  /// A connection began: its hello may have been said with the token before.
  void met(const PeerId& peer);

  /// Tells those who are to be told. Until cancelled.
  Task<> run();

 private:
  Answer on_renew(const PeerId& from, const Frame& request);
  Task<> renew(PeerId to);

  Endpoint& endpoint_;
  Clock& clock_;
  Log& log_;
  Access& access_;
  Bytes token_;
  TimePoint told_until_{};  ///< connections that begin before may not know the token
  std::set<PeerId> untold_;
  Signal untold_changed_;
};

}  // namespace collab::net
