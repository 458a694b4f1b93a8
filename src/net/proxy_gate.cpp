#include "net/proxy_gate.hpp"

#include "net/proxy.hpp"

#include <algorithm>

namespace collab::net {
namespace {

bool is_about_login(const boost::system::error_code& error) {
  return error == proxy_status(kProxyWantsLogin) || error == make_error_code(ProxyFault::other_login);
}

/// Also who cannot reach a place, or keeps silent because it tries to, has taken the login.
bool shows_trust(const boost::system::error_code& error) {
  const auto is = [&](int status) { return error == proxy_status(status); };
  return !error || error == make_error_code(ProxyFault::silent) || is(502) || is(503) || is(504);
}

}  // namespace

std::optional<boost::system::error_code> ProxyGate::barred() const {
  if (!refusal_ || (clock_.now() >= again_ && asking_ == 0)) return std::nullopt;
  return refusal_;
}

Task<Result<std::unique_ptr<ProxyGate::Turn>>> ProxyGate::enter(TimePoint deadline) {
  for (;;) {
    if (const auto why = barred()) co_return *why;
    if (!one_by_one_ || trusted_ || asking_ == 0) co_return std::make_unique<Turn>(*this);
    if (clock_.now() >= deadline) co_return Errc::late;
    (void)co_await moved_.wait_until(clock_, deadline);  // looked at again in any case
  }
}

ProxyGate::Turn::~Turn() {
  --gate_.asking_;
  gate_.moved_.notify();
}

void ProxyGate::Turn::answered(const boost::system::error_code& error) {
  if (is_about_login(error)) {
    gate_.trusted_ = false;
    // those that were under way together are refused together
    const bool again = !gate_.refusal_ || gate_.clock_.now() >= gate_.again_;
    if (again) gate_.pause_ = std::clamp(2 * gate_.pause_, kPauseMin, kPauseMax);
    gate_.refusal_ = error;
    gate_.again_ = gate_.clock_.now() + gate_.pause_;
  } else if (shows_trust(error)) {
    gate_.trusted_ = true;
    gate_.refusal_ = {};
    gate_.pause_ = {};
  }
}

}  // namespace collab::net
