#include "nat/dial_back.hpp"

#include "base/frame.hpp"
#include "net/secure_channel.hpp"

#include <array>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::size_t kReadBytes = 4096;

Task<Result<>> flush(net::SecureChannel& channel, net::ByteStream& stream) {
  const auto output = channel.output();
  if (output.empty()) co_return Result<>();
  const Bytes bytes(output.begin(), output.end());  // the channel goes on while these are written
  channel.sent(bytes.size());
  co_return co_await stream.write(bytes);
}

Task<Result<>> shake_hands(net::SecureChannel& channel, net::ByteStream& stream) {
  Bytes buffer(kReadBytes);
  while (!channel.established()) {
    const auto flushed = co_await flush(channel, stream);
    if (!flushed) co_return flushed.error();
    const auto size = co_await stream.read(buffer);
    if (!size) co_return size.error();
    if (*size == 0) co_return Errc::gone;
    const auto taken = channel.receive(std::span(buffer).first(*size));
    if (!taken) co_return taken.error();
  }
  (void)channel.close();  // the other side has proved itself; how it takes the good-bye is its own affair
  (void)co_await flush(channel, stream);
  co_return Result<>();
}

Task<Result<>> dial_and_shake_hands(net::Network& network, const net::TlsContext& tls, net::Address to, PeerId expected,
                                    TimePoint deadline) {
  const auto stream = co_await network.dial(std::move(to), deadline);
  if (!stream) co_return stream.error();
  net::SecureChannel channel(tls, net::Side::dialled, expected);
  const auto shaken = co_await shake_hands(channel, **stream);
  (*stream)->close();
  co_return shaken;
}

wire::Verdict verdict_of(const Result<>& knocked) {
  if (knocked) return wire::Verdict::ok;
  return knocked.error() == Errc::late ? wire::Verdict::timeout : wire::Verdict::refused;
}

}  // namespace

Task<Result<>> knock(net::Network& network, Clock& clock, const net::TlsContext& tls, net::Address to, PeerId expected,
                     TimePoint deadline) {
  auto work = dial_and_shake_hands(network, tls, std::move(to), expected, deadline);
  co_return co_await with_deadline(clock, deadline, std::move(work));
}

bool may_knock_at(std::uint16_t port) noexcept {
  return port == 443 || port >= 1024;
}

net::Method dial_back_method() {
  net::Method method;
  method.name = "nat.dial_back";
  method.traffic = net::TrafficClass::control;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = 1024;
  return method;
}

DialBackServer::DialBackServer(net::Endpoint& endpoint, net::Network& network, Clock& clock, Log& log,
                               const net::TlsContext& tls, HostOf host_of, Options options)
    : network_(network),
      clock_(clock),
      log_(log),
      tls_(tls),
      host_of_(std::move(host_of)),
      options_(std::move(options)),
      rate_(options_.per_min / 60, options_.per_min, clock.now()) {
  const auto answer = [this](PeerId from, Frame request, TimePoint deadline) {
    return on_dial_back(from, std::move(request), deadline);
  };
  endpoint.handle(dial_back_method(), answer);
}

/// Null: asked too often.
DialBackServer::Asker* DialBackServer::admit(const PeerId& from, TimePoint now) {
  if (askers_.size() >= options_.peers_max) {
    for (auto next = askers_.begin(); next != askers_.end();) {
      const bool quiet = next->second.at_once == 0 && next->second.rate.full(now);
      next = quiet ? askers_.erase(next) : std::next(next);
    }
  }
  auto found = askers_.find(from);
  if (found == askers_.end()) {
    if (askers_.size() >= options_.peers_max) return nullptr;
    const net::TokenBucket fresh(options_.of_peer_per_min / 60, options_.of_peer_per_min, now);
    found = askers_.emplace(from, Asker{fresh, 0}).first;
  }
  Asker& asker = found->second;
  if (asker.at_once >= options_.of_peer_max || !asker.rate.take(now) || !rate_.take(now)) return nullptr;
  return &asker;
}

Task<net::Answer> DialBackServer::on_dial_back(PeerId from, Frame request, TimePoint deadline) {
  const auto message = frame::decode<wire::Header>(*request);
  const auto* ask = message ? std::get_if<wire::DialBack>(&message->header) : nullptr;
  if (ask == nullptr || ask->host.size() > wire::kHostBytesMax) co_return Refusal(Errc::bad_request, "no DialBack");
  if (options_.may_judge && !options_.may_judge())
    co_return Refusal(Errc::denied, "this node's own way out leads to few ports");
  wire::DialledBack done;
  const auto seen = host_of_(from);
  if (!seen || (!ask->host.empty() && ask->host != *seen) || !may_knock_at(ask->port)) {
    done.verdict = static_cast<std::uint8_t>(wire::Verdict::not_yours);
    co_return frame::encode(wire::Header(std::move(done)));
  }
  net::Address to;
  to.host = *seen;
  to.port = ask->port;
  if (ask->wss) to.leg = net::Leg::wss;
  const TimePoint start = clock_.now();
  Asker* asker = admit(from, start);
  if (asker == nullptr) co_return Refusal(Errc::busy, "asked for dial-backs too often", 60'000);

  struct AtOnce {
    explicit AtOnce(std::size_t& number) : count(number) { ++count; }
    ~AtOnce() { --count; }
    std::size_t& count;
  };
  const AtOnce counted(asker->at_once);  // an entry that is counted is never erased
  const auto knocked =
      co_await knock(network_, clock_, tls_, to, from, std::min(deadline, start + options_.knock_time));
  const Duration took = clock_.now() - start;
  done.verdict = static_cast<std::uint8_t>(verdict_of(knocked));
  done.host = to.host;
  done.ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  log_.debug("nat.dialled_back", {{"peer", from.short_text()}, {"ok", knocked.has_value()}, {"ms", done.ms}});
  co_return frame::encode(wire::Header(std::move(done)));
}

}  // namespace collab::nat
