#include "nat/gateway.hpp"
#include "nat/protocols.hpp"
#include "nat/worker_thread.hpp"

#include <natpmp.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <poll.h>

namespace collab::nat {
namespace {

using Why = GatewayRefusal::Why;
using Moment = std::chrono::steady_clock::time_point;

constexpr int kTries = 3;  // at 0, 250 and 750 ms: the library doubles its pause; left alone it would go on for 128 s

/// One socket to one router, for one question.
class NatPmp {
 public:
  explicit NatPmp(in_addr_t router) : opened_(initnatpmp(&state_, 1, router) == 0) {}
  ~NatPmp() {
    if (opened_) closenatpmp(&state_);
  }
  NatPmp(const NatPmp&) = delete;
  NatPmp& operator=(const NatPmp&) = delete;

  /// `send` puts the question into the library, which repeats it.
  GatewayResult<natpmpresp_t> ask(const std::function<int(natpmp_t*)>& send, Moment end) {
    if (!opened_ || send(&state_) < 0) return GatewayRefusal(Why::absent, "has no way to the router");
    for (;;) {
      const Moment now = std::chrono::steady_clock::now();
      if (now >= end) return GatewayRefusal(Why::silent, "is not answered");
      pollfd ready{state_.s, POLLIN, 0};
      const int pause_ms = std::min(until_next_try_ms(), ms_between(now, end));
      const int found = ::poll(&ready, 1, pause_ms + 1);
      if (found < 0 && errno != EINTR) return GatewayRefusal(Why::absent, "has no way to the router");
      if (found <= 0 && state_.try_number >= kTries) continue;
      natpmpresp_t answer{};
      const int status = readnatpmpresponseorretry(&state_, &answer);
      if (status == 0) return answer;
      if (status != NATPMP_TRYAGAIN) return refusal_of(status);
    }
  }

 private:
  static int ms_between(Moment from, Moment to) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count());
  }
  int until_next_try_ms() {
    timeval pause{};
    if (state_.try_number >= kTries || getnatpmprequesttimeout(&state_, &pause) != 0) return 1000;
    return std::max(0, static_cast<int>(pause.tv_sec * 1000 + pause.tv_usec / 1000));
  }
  static GatewayRefusal refusal_of(int status) {
    switch (status) {
      case NATPMP_ERR_NOGATEWAYSUPPORT: return {Why::absent, "is not spoken by the router"};
      case NATPMP_ERR_NOTAUTHORIZED: return {Why::refused, "is switched off in the router"};
      case NATPMP_ERR_NETWORKFAILURE: return {Why::refused, "is there, but the router itself has no address outside"};
      case NATPMP_ERR_OUTOFRESOURCES: return {Why::refused, "is there, but the router has no mapping left"};
      case NATPMP_ERR_UNSUPPORTEDVERSION: return {Why::absent, "is spoken by the router in another version"};
      default: return {Why::nonsense, "is answered with what is no answer"};
    }
  }

  natpmp_t state_{};
  bool opened_;
};

std::optional<in_addr_t> parse_router(const std::string& router) {
  in_addr address{};
  if (::inet_pton(AF_INET, router.c_str(), &address) != 1) return std::nullopt;
  return address.s_addr;
}

GatewayResult<natpmpresp_t> ask_router(const std::string& router, const std::function<int(natpmp_t*)>& send,
                                       std::uint16_t type, Moment end) {
  const auto to = parse_router(router);
  if (!to) return GatewayRefusal(Why::absent, "needs a router with an IPv4 address");
  NatPmp question(*to);
  auto answer = question.ask(send, end);
  if (answer && answer->type != type) return GatewayRefusal(Why::nonsense, "is answered with another kind of answer");
  return answer;
}

GatewayResult<Sight> ask_outside(const std::string& router, Moment end) {
  const auto answer = ask_router(router, sendpublicaddressrequest, NATPMP_RESPTYPE_PUBLICADDRESS, end);
  if (!answer) return answer.error();
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &answer->pnu.publicaddress.addr, text.data(), text.size());
  return Sight{text.data(), answer->epoch};
}

GatewayResult<MapReply> ask_mapping(const std::string& router, const MapRequest& wish, Moment end) {
  const auto send = [&wish](natpmp_t* state) {
    return sendnewportmappingrequest(state, NATPMP_PROTOCOL_TCP, wish.inside_port, wish.outside_port, wish.lease_s);
  };
  const auto answer = ask_router(router, send, NATPMP_RESPTYPE_TCPPORTMAPPING, end);
  if (!answer) return answer.error();
  const auto& mapped = answer->pnu.newportmapping;
  return MapReply{mapped.privateport, mapped.mappedpublicport, mapped.lifetime};
}

class NatPmpGateway final : public Gateway {
 public:
  NatPmpGateway(const asio::any_io_executor& executor, Clock& clock) : clock_(clock), thread_(executor) {}

  Protocol protocol() const noexcept override { return Protocol::natpmp; }
  Task<GatewayResult<Sight>> find(std::string router, TimePoint deadline) override {
    router_ = std::move(router);
    return see(deadline);
  }
  Task<GatewayResult<Sight>> look(MapRequest, TimePoint deadline) override { return see(deadline); }
  Task<GatewayResult<MapReply>> map(MapRequest request, TimePoint deadline) override {
    const std::function<GatewayResult<MapReply>()> job = [router = router_, request, deadline] {
      return ask_mapping(router, request, deadline);
    };
    auto answer = co_await thread_.ask(clock_, deadline, job);
    if (!answer) co_return GatewayRefusal(Why::silent, "is not answered");
    co_return std::move(*answer);
  }
  Task<bool> unmap(MapRequest mapped, TimePoint deadline) override {
    mapped.outside_port = 0;  // as RFC 6886 wants it: the inside port tells which
    mapped.lease_s = 0;
    co_return (co_await map(mapped, deadline)).has_value();
  }

 private:
  Task<GatewayResult<Sight>> see(TimePoint deadline) {
    const std::function<GatewayResult<Sight>()> job = [router = router_, deadline] {
      return ask_outside(router, deadline);
    };
    auto answer = co_await thread_.ask(clock_, deadline, job);
    if (!answer) co_return GatewayRefusal(Why::silent, "is not answered");
    co_return std::move(*answer);
  }

  Clock& clock_;
  WorkerThread thread_;
  std::string router_;
};

}  // namespace

std::unique_ptr<Gateway> natpmp_gateway(const asio::any_io_executor& executor, Clock& clock) {
  return std::make_unique<NatPmpGateway>(executor, clock);
}

}  // namespace collab::nat
