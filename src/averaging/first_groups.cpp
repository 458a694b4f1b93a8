#include "averaging/first_groups.hpp"

#include "averaging/wire.hpp"
#include "base/frame.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace collab::averaging {
namespace {

constexpr std::size_t kInquiryBytesMax = 256;
constexpr double kInquiriesPerS = 1;
constexpr double kInquiriesAtOnce = 8;  // a peer asks about each try of a first group

/// The answers of all who are asked, until one knows.
struct Answers {
  std::size_t missing = 0;
  std::optional<bool> counted;
  Signal changed;
};

Task<> ask_whether_counted(net::Endpoint& net, PeerId groupmate, Frame request, TimePoint deadline, Answers& answers) {
  const net::Answer answer = co_await net.call(groupmate, wire::kCountedMethod, std::move(request), deadline);
  --answers.missing;
  const auto message = answer ? frame::decode<wire::Inquiry>(**answer) : Errc::gone;
  const auto* said = message ? std::get_if<wire::Counted>(&message->header) : nullptr;
  if (said != nullptr) answers.counted = said->counted;
  answers.changed.notify();
}

}  // namespace

net::Method counted_method() {
  net::Method method;
  method.name = wire::kCountedMethod;
  method.claim = Claim::contribute;
  method.request_bytes_max = kInquiryBytesMax;
  method.answer_bytes_max = kInquiryBytesMax;
  method.requests_per_s = kInquiriesPerS;
  method.requests_burst = kInquiriesAtOnce;
  method.idempotent = true;
  return method;
}

void FirstGroups::committed(const RoundReport& round) {
  First first;
  first.group = round.group;
  for (const PeerReport& peer : round.peers) {
    if (peer.counted > 0) first.counted.push_back(peer.id);
  }
  kept_.push_back(std::move(first));
  if (kept_.size() > kept_max_) kept_.pop_front();
}

net::Answer FirstGroups::answer(const PeerId& from, const Frame& request) const {
  const auto message = frame::decode<wire::Inquiry>(*request);
  const auto* ask = message ? std::get_if<wire::WasCounted>(&message->header) : nullptr;
  if (ask == nullptr) return Refusal(Errc::bad_request);
  const auto is_it = [ask](const First& one) { return one.group == ask->group; };
  const auto first = std::find_if(kept_.begin(), kept_.end(), is_it);
  if (first == kept_.end()) return Refusal(Errc::stale, "no first group that was committed here");
  wire::Counted counted;
  counted.counted = std::find(first->counted.begin(), first->counted.end(), from) != first->counted.end();
  return frame::encode(wire::Inquiry(counted));
}

Task<bool> was_counted(net::Endpoint& net, const RoundReport& round, TimePoint deadline) {
  wire::WasCounted ask;
  ask.group = round.group;
  const Frame request = frame::encode(wire::Inquiry(ask));
  Answers answers{0, {}, Signal(co_await asio::this_coro::executor)};
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const PeerReport& peer : round.peers) {
      if (peer.id == net.self()) continue;
      ++answers.missing;
      tasks.spawn("averaging.counted", ask_whether_counted(net, peer.id, request, deadline, answers));
    }
    while (answers.missing > 0 && !answers.counted) co_await answers.changed.wait();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return answers.counted.value_or(false);
}

}  // namespace collab::averaging
