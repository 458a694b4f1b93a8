#include "net/credentials.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "net/wire.hpp"

#include <utility>

namespace collab::net {
namespace {

constexpr Duration kRenewTime = std::chrono::seconds(10);
constexpr Duration kHelloTime = std::chrono::seconds(10);  // between a hello and the connection it opens

}  // namespace

Method renew_method() {
  Method method;
  method.name = "net.renew";
  method.traffic = TrafficClass::control;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = 1024;
  method.requests_per_s = 1;
  method.requests_burst = 10;
  method.idempotent = true;
  return method;
}

Credentials::Credentials(Endpoint& endpoint, asio::any_io_executor loop, Clock& clock, Log& log, Access& access)
    : endpoint_(endpoint), clock_(clock), log_(log), access_(access), untold_changed_(std::move(loop)) {}

Handler Credentials::handler() {
  return [this](PeerId from, Frame request, TimePoint) -> Task<Answer> { co_return on_renew(from, request); };
}

Answer Credentials::on_renew(const PeerId& from, const Frame& request) {
  const auto message = frame::decode<RenewHeader>(*request);
  const auto* renew = message ? std::get_if<Renew>(&message->header) : nullptr;
  if (renew == nullptr || !message->payload.empty()) return Refusal(Errc::bad_request, "no Renew");
  if (renew->token.empty() || renew->token.size() > kTokenBytesMax) return Refusal(Errc::bad_request, "token");
  const auto shown = access_.show(from, std::as_bytes(std::span(renew->token)));
  if (!shown) return Refusal(Errc::denied, shown.error().message());
  Renewed renewed;
  renewed.expires_ms = access_.expiry_of(from).value_or(0);
  return frame::encode(RenewHeader(renewed));
}

void Credentials::present(Bytes token, const std::vector<PeerId>& connected) {
  const bool first = token_.empty();
  token_ = std::move(token);
  if (token_.empty()) return;
  if (!first) told_until_ = clock_.now() + kHelloTime;
  untold_.insert(connected.begin(), connected.end());
  untold_changed_.notify();
}

void Credentials::met(const PeerId& peer) {
  if (token_.empty() || clock_.now() >= told_until_) return;
  untold_.insert(peer);
  untold_changed_.notify();
}

Task<> Credentials::run() {
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    for (;;) {
      for (const PeerId& peer : std::exchange(untold_, {})) tasks.spawn("net.renew", renew(peer));
      co_await untold_changed_.wait();
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Credentials::renew(PeerId to) {
  Renew message;
  for (const std::byte byte : token_) message.token.push_back(std::to_integer<char>(byte));
  const Frame request = frame::encode(RenewHeader(std::move(message)));
  const auto answer = co_await endpoint_.call(to, "net.renew", request, clock_.now() + kRenewTime);
  if (!answer) {
    log_.info("net.renew_failed", {{"peer", to.short_text()}, {"why", answer.error().reason}});
  }
}

}  // namespace collab::net
