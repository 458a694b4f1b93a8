#include "bulk.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace collab::bench {
namespace {

constexpr std::string_view kProtocol = "bench.bulk";
constexpr std::string_view kQuestion = "bench.question";
constexpr Duration kWarmUp = std::chrono::seconds(1);
constexpr double kPlenty = 1e15;                          // bytes; how many it will be nobody knows
constexpr Duration kPatience = std::chrono::seconds(30);  // after the time is over: slow lines have queues

net::Method protocol() {
  net::Method row;
  row.name = kProtocol;
  row.traffic = net::TrafficClass::bulk;
  row.request_bytes_max = frame::kFrameBytesMax;
  return row;
}

net::Method question() {
  net::Method row;
  row.name = kQuestion;
  row.traffic = net::TrafficClass::control;
  row.requests_per_s = row.requests_burst = 1e6;
  row.idempotent = true;
  return row;
}

Frame frame_of(std::size_t bytes) {
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte{1}));
}

/// All bytes of the count until then, this frame's among them.
struct Arrived {
  double at_s;
  double bytes;
};

/// Between two frames that nothing held up: behind a lost packet others queue, and come all at once when it has been
/// sent again. To begin or end in there would count them as carried in no time, or not at all.
void count(const std::vector<Arrived>& arrived, BulkFigures& figures) {
  if (arrived.size() < 2) return;
  const double rate = (arrived.back().bytes - arrived.front().bytes) / (arrived.back().at_s - arrived.front().at_s);
  const auto is_later = [rate](const Arrived& a, const Arrived& b) {
    return a.bytes - rate * a.at_s < b.bytes - rate * b.at_s;
  };
  const auto quarter = static_cast<std::ptrdiff_t>((arrived.size() + 3) / 4);
  const auto from = std::max_element(arrived.begin(), arrived.begin() + quarter, is_later);
  const auto to = std::max_element(arrived.end() - quarter, arrived.end(), is_later);
  figures.bytes = static_cast<std::uint64_t>(to->bytes - from->bytes);
  figures.seconds = to->at_s - from->at_s;
}

}  // namespace

Bulk::Bulk(net::Endpoint& net, Clock& clock) : net_(net), clock_(clock) {
  net_.allow_conversation(protocol());
  const auto answer = [](PeerId, Frame request, TimePoint) -> Task<net::Answer> { co_return request; };
  net_.handle(question(), answer);
}

Task<Result<BulkFigures>> Bulk::run(BulkOrder order) {
  const Digest topic = Hasher("collab bench bulk").add(order.run).finish();
  const auto talk = net_.converse(kProtocol, topic, {order.other});
  BulkFigures figures;
  Result<> worst;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    const auto note = [&worst](Task<Result<>> part) -> Task<> {
      const auto done = co_await std::move(part);
      if (!done) worst = done;
    };
    if (order.sends) tasks.spawn("send", note(send(*talk, order)));
    if (order.receives) tasks.spawn("receive", note(receive(*talk, figures, order)));
    if (order.ask_every > Duration()) tasks.spawn("ask", note(ask(order, figures)));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  if (!worst) co_return worst.error();
  co_return figures;
}

/// A frame of one byte says that it is over.
Task<Result<>> Bulk::send(net::Conversation& talk, const BulkOrder& order) {
  const TimePoint end = clock_.now() + order.length;
  const Frame frame = frame_of(order.frame_bytes);
  talk.plan({{order.other, kPlenty}});  // as a round does
  while (clock_.now() < end) {
    const auto sent = co_await talk.send(order.other, net::TrafficClass::bulk, frame, end + kPatience);
    if (!sent) co_return sent.error();
  }
  co_return co_await talk.send(order.other, net::TrafficClass::bulk, frame_of(1), end + kPatience);
}

Task<Result<>> Bulk::receive(net::Conversation& talk, BulkFigures& figures, const BulkOrder& order) {
  const TimePoint deadline = clock_.now() + order.length + kPatience;
  std::optional<TimePoint> first;
  std::vector<Arrived> arrived;
  std::uint64_t bytes = 0;
  for (;;) {
    const auto came = co_await talk.receive(deadline);
    if (!came) co_return came.error();
    if (came->frame->size() == 1) break;
    const TimePoint now = clock_.now();
    if (!first) first = now;
    if (now < *first + kWarmUp) continue;
    bytes += came->frame->size();
    arrived.push_back({to_seconds(now - *first), static_cast<double>(bytes)});
  }
  count(arrived, figures);
  co_return Result<>();
}

Task<Result<>> Bulk::ask(const BulkOrder& order, BulkFigures& figures) {
  const TimePoint start = clock_.now();
  const TimePoint end = start + order.length;
  const Frame request = frame_of(100);
  // one that waits keeps others from being asked: then later ones, and not all at once when the line is free again
  for (TimePoint next = start + kWarmUp; next < end; next = std::max(next, clock_.now()) + order.ask_every) {
    co_await clock_.sleep_until(next);
    const TimePoint asked = clock_.now();
    const auto answer = co_await net_.call(order.other, kQuestion, request, asked + kPatience);
    if (!answer) co_return answer.error().code;
    figures.answers.push_back(to_seconds(clock_.now() - asked));
  }
  co_return Result<>();
}

}  // namespace collab::bench
