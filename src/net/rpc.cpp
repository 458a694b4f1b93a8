#include "net/rpc.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kMethodBytesMax = 64;
constexpr std::uint64_t kRetryMs = 100;
constexpr Duration kForgetPeriod = std::chrono::seconds(1);  // it looks at every answer of everybody

std::uint64_t to_ms(Duration duration) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(duration).count()));
}

}  // namespace

std::string_view name(Errc code) noexcept {
  constexpr std::array<std::string_view, 7> kNames = {"ok", "busy", "late", "stale", "denied", "bad_request", "gone"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

void MethodTable::add(Method method, Handler handler) {
  assert(!method.name.empty() && method.name.size() <= kMethodBytesMax);
  assert(method.request_bytes_max <= kMessageBytesMax && method.answer_bytes_max <= kMessageBytesMax);
  MethodRow row;
  row.method = std::move(method);
  row.handler = std::move(handler);
  const std::string key = row.method.name;
  const bool added = rows_.emplace(key, std::move(row)).second;
  assert(added && "one row for each method");
  (void)added;  // asserts are on in every build; this is for who turns them off
}

const MethodRow* MethodTable::find(std::string_view name) const {
  const auto found = rows_.find(name);
  return found == rows_.end() ? nullptr : &found->second;
}

// --- answering

/// Gives the answer, or `late` when the handler was ended before it had one.
class CallServer::Settle {
 public:
  Settle(CallServer& server, const PeerId& from, const CallId& id, const MethodRow& row)
      : server_(server), from_(from), id_(id), row_(row) {}
  ~Settle() {
    Refusal ended(Errc::late, "ended before it had an answer");
    server_.settle(from_, id_, row_, answer ? std::move(*answer) : Answer(std::move(ended)));
  }
  Settle(const Settle&) = delete;
  Settle& operator=(const Settle&) = delete;

  std::optional<Answer> answer;

 private:
  CallServer& server_;
  PeerId from_;
  CallId id_;
  const MethodRow& row_;
};

Refusal CallServer::refuse(const std::string& method, Refusal why) {
  needs_.metrics.add("collab_calls_total", 1, {{"method", method}, {"status", std::string(name(why.code))}});
  return why;
}

Accepted CallServer::on_open(Multiplexer& streams, StreamHandle stream, TrafficClass traffic, const OpenCall& open,
                             std::size_t message_bytes, Duration rtt) {
  const MethodRow* row = needs_.methods.find(open.method);
  if (row == nullptr || !row->handler) return refuse("unknown", Refusal(Errc::bad_request, "no such method"));
  if (traffic != row->method.traffic) return refuse(open.method, Refusal(Errc::bad_request, "wrong class"));
  const TimePoint now = needs_.clock.now();
  const Duration left = std::chrono::milliseconds(open.left_ms);
  const TimePoint deadline = now + left - rtt / 2;
  Asker& asker = askers_[streams.peer()];
  if (auto why = judge(asker, *row, streams.peer(), open, message_bytes, deadline))
    return refuse(open.method, std::move(*why));
  InFlight call;
  call.from = streams.peer();
  call.row = row;
  call.id = open.id;
  call.deadline = deadline;
  call.moved = now;
  in_flight_[key_of(streams, stream)] = call;
  ++asker.in_flight;
  return this;
}

/// The only place where it is decided whether a handler may run.
std::optional<Refusal> CallServer::judge(Asker& asker, const MethodRow& row, const PeerId& from, const OpenCall& open,
                                         std::size_t message_bytes, TimePoint deadline) {
  const Method& method = row.method;
  const TimePoint now = needs_.clock.now();
  if (message_bytes == 0 || message_bytes > method.request_bytes_max) return Refusal(Errc::bad_request, "size");
  const TokenBucket full(method.requests_per_s, method.requests_burst, now);
  TokenBucket& rate = asker.rates.try_emplace(&row, full).first->second;
  if (!rate.take(now)) return Refusal(Errc::busy, "rate", to_ms(rate.wait()));
  if (const Decision may = needs_.access.may(from, method.claim); !may) return Refusal(Errc::denied, may.reason);
  if (open.left_ms == 0 || std::chrono::milliseconds(open.left_ms) > options_.left_max)
    return Refusal(Errc::bad_request, "left_ms");
  if (deadline <= now) return Refusal(Errc::late);
  if (asker.in_flight >= options_.of_peer_max || in_flight_.size() >= options_.of_node_max || tasks_ == nullptr)
    return Refusal(Errc::busy, "calls in flight", kRetryMs);
  if (answer_bytes_ >= options_.answer_bytes_of_node_max) return Refusal(Errc::busy, "answers unsent", kRetryMs);
  return std::nullopt;
}

void CallServer::on_message(Multiplexer& streams, StreamHandle stream, Frame request) {
  const auto call = in_flight_.find(key_of(streams, stream));
  if (call == in_flight_.end()) return;
  streams.consumed(stream, call->second.row->method.traffic, request->size());
  call->second.heard = true;
  const InFlight asked = call->second;
  Asker& asker = askers_[asked.from];
  const auto known = asker.answers.find(asked.id);
  if (known != asker.answers.end()) {
    if (known->second.answer) return reply(call->first, *known->second.answer);
    known->second.asking.push_back(call->first);
    return;
  }
  if (tasks_ == nullptr) return streams.reset(stream, Refusal(Errc::gone));
  Remembered& fresh = asker.answers[asked.id];
  fresh.asking.push_back(call->first);
  fresh.deadline = asked.deadline;
  fresh.at = needs_.clock.now();
  asker.order.push_back(asked.id);
  running_.insert({asked.deadline, asked.from, asked.id});
  auto serving = serve(asked.from, asked.id, asked.row, std::move(request), asked.deadline);
  const auto task = tasks_->spawn(asked.row->method.name, std::move(serving));
  // a handler that did not wait has answered by now, and an idempotent one's place is gone
  if (const auto still = asker.answers.find(asked.id); still != asker.answers.end()) still->second.task = task;
}

Task<> CallServer::serve(PeerId from, CallId id, const MethodRow* row, Frame request, TimePoint deadline) {
  Settle settled(*this, from, id, *row);
  Answer answer = co_await row->handler(from, std::move(request), deadline);
  assert((!answer || *answer) && "an answer has bytes, or a reason why not");
  const std::size_t bytes = answer ? (*answer)->size() : 0;
  if (bytes > row->method.answer_bytes_max) {  // it depends on what the node holds, perhaps on what it was asked
    needs_.log.error("net.answer_over_bound", {{"method", row->method.name},
                                               {"bytes", bytes},
                                               {"bytes_max", row->method.answer_bytes_max},
                                               {"peer", from.short_text()}});
    answer = Refusal(Errc::bad_request, "the answer is over its bound");
  }
  settled.answer = std::move(answer);
}

void CallServer::settle(const PeerId& from, const CallId& id, const MethodRow& row, Answer answer) {
  const std::string status(answer ? "ok" : name(answer.error().code));
  needs_.metrics.add("collab_calls_total", 1, {{"method", row.method.name}, {"status", status}});
  Asker& asker = askers_[from];
  const auto found = asker.answers.find(id);
  if (found == asker.answers.end() || found->second.answer) return;
  running_.erase({found->second.deadline, from, id});
  const auto asking = std::exchange(found->second.asking, {});
  if (row.method.idempotent) {
    asker.answers.erase(found);
    std::erase(asker.order, id);
  } else {
    remember(from, id, answer);
  }
  for (const StreamKey& stream : asking) reply(stream, answer);
}

void CallServer::reply(StreamKey key, const Answer& answer) {
  Multiplexer* streams = needs_.paths.find(key.connection);
  const auto found = in_flight_.find(key);
  if (streams == nullptr || found == in_flight_.end() || found->second.answered) return;
  if (answer && answer_bytes_ + (*answer)->size() > options_.answer_bytes_of_node_max)
    return reply(key, Refusal(Errc::busy, "answers unsent", kRetryMs));
  InFlight& call = found->second;
  call.answered = true;
  if (answer) {
    call.moved = needs_.clock.now();
    call.unsent = (*answer)->size();
    answer_bytes_ += call.unsent;
    return streams->send(key.stream, *answer, true);
  }
  streams->reset(key.stream, answer.error());
  on_closed(*streams, key.stream, StreamEnd::done, answer.error());
}

/// Keeps what is remembered in its bounds: first the bytes of old answers go, of this peer and of all, then the oldest
/// ids.
void CallServer::remember(const PeerId& from, const CallId& id, Answer answer) {
  Asker& asker = askers_.at(from);
  Remembered& fresh = asker.answers.at(id);
  fresh.at = needs_.clock.now();
  if (answer) {
    fresh.kept = next_kept_++;
    kept_[fresh.kept] = Kept{from, id};
    asker.answer_bytes += (*answer)->size();
    kept_bytes_ += (*answer)->size();
  }
  fresh.answer = std::move(answer);
  for (const CallId& old : asker.order) {
    if (asker.answer_bytes <= options_.remembered_bytes_max) break;
    drop_bytes(asker, asker.answers.at(old));
  }
  while (kept_bytes_ > options_.remembered_bytes_of_node_max) {
    const Kept oldest = kept_.begin()->second;
    Asker& whose = askers_.at(oldest.from);
    drop_bytes(whose, whose.answers.at(oldest.id));
  }
  if (asker.order.size() > options_.remembered_max) forget_some(asker, options_.remembered_max, TimePoint::min());
}

/// From now on it is answered as `stale`.
void CallServer::drop_bytes(Asker& asker, Remembered& known) {
  if (known.kept == 0) return;
  const std::size_t bytes = (**known.answer)->size();
  asker.answer_bytes -= bytes;
  kept_bytes_ -= bytes;
  kept_.erase(std::exchange(known.kept, 0));
  known.answer = Answer(Refusal(Errc::stale, "answered before"));
}

/// Forgets what was answered before that time, and the oldest above `count_max`. What still runs stays.
void CallServer::forget_some(Asker& asker, std::size_t count_max, TimePoint answered_before) {
  for (auto next = asker.order.begin(); next != asker.order.end();) {
    const auto known = asker.answers.find(*next);
    if (!known->second.answer) {
      ++next;
      continue;
    }
    if (asker.order.size() <= count_max && known->second.at > answered_before) return;  // the others came later
    drop_bytes(asker, known->second);
    asker.answers.erase(known);
    next = asker.order.erase(next);
  }
}

void CallServer::on_closed(Multiplexer& streams, StreamHandle stream, StreamEnd end, const Refusal&) {
  const auto found = in_flight_.find(key_of(streams, stream));
  if (found == in_flight_.end()) return;
  const InFlight call = found->second;
  in_flight_.erase(found);
  answer_bytes_ -= call.unsent;
  Asker& asker = askers_[call.from];
  --asker.in_flight;
  // the asker gave up; when only its connection broke it may ask again, so the work goes on
  const auto known = asker.answers.find(call.id);
  if (end == StreamEnd::refused && known != asker.answers.end() && !known->second.answer && tasks_ != nullptr)
    tasks_->cancel(known->second.task);
}

/// Whether a stream holds its place for nothing: nobody waits for it any more, or the other end stands still.
bool CallServer::is_overdue(const StreamKey& key, InFlight& call, TimePoint now) {
  if (call.deadline + options_.grace <= now) return true;
  if (!call.heard) return now - call.moved >= options_.request_time_max;
  if (!call.answered) return false;
  Multiplexer* streams = needs_.paths.find(key.connection);
  const std::size_t unsent = streams == nullptr ? call.unsent : streams->queued(key.stream);
  if (unsent != call.unsent) {
    answer_bytes_ -= call.unsent - unsent;
    call.unsent = unsent;
    call.moved = now;
  }
  return now - call.moved >= options_.answer_stalled_max;
}

void CallServer::tick(TimePoint now) {
  std::vector<StreamKey> in_vain;
  for (auto& [key, call] : in_flight_)
    if (is_overdue(key, call, now)) in_vain.push_back(key);
  for (const StreamKey& key : in_vain) {
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "call_overdue"}});
    const Refusal why(Errc::late, "not taken in time");
    Multiplexer* streams = needs_.paths.find(key.connection);
    if (streams == nullptr) continue;  // its end is on the way
    streams->reset(key.stream, why);
    on_closed(*streams, key.stream, StreamEnd::done, why);
  }
  std::vector<TaskGroup::TaskId> overdue;
  for (const Running& call : running_) {
    if (call.deadline > now) break;
    overdue.push_back(askers_.at(call.from).answers.at(call.id).task);
  }
  for (const auto task : overdue)
    if (tasks_ != nullptr) tasks_->cancel(task);
  if (now - forgot_ >= kForgetPeriod) forget(now);
}

/// Old answers, and askers of whom nothing is left to know.
void CallServer::forget(TimePoint now) {
  forgot_ = now;
  for (auto next = askers_.begin(); next != askers_.end();) {
    Asker& asker = next->second;
    forget_some(asker, options_.remembered_max, now - options_.remembered_for);
    const bool rested =
        std::all_of(asker.rates.begin(), asker.rates.end(), [&](auto& rate) { return rate.second.full(now); });
    const bool done = asker.order.empty() && asker.in_flight == 0 && rested;
    next = done ? askers_.erase(next) : std::next(next);
  }
}

// --- asking

/// One try of a call, waiting on its caller's stack. A caller that is cancelled takes the question back.
struct CallClient::Pending {
  Pending(CallClient& of, const PeerId& to, Multiplexer& streams, StreamHandle stream)
      : client(of), key(key_of(streams, stream)), waits(of.paths_, to), changed(of.executor_) {
    client.pending_[key] = this;
  }
  ~Pending() {
    client.pending_.erase(key);
    if (over) return;
    if (Multiplexer* streams = client.paths_.find(key.connection))
      streams->reset(key.stream, Refusal(Errc::late, "the caller gave up"));
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  CallClient& client;
  StreamKey key;
  WaitsFor waits;
  Signal changed;
  std::size_t answer_bytes_max = 0;
  TrafficClass traffic = TrafficClass::latency;
  std::optional<Answer> answer;
  bool over = false;  ///< the stream is
};

Task<Answer> CallClient::call(PeerId to, Method method, Frame request, TimePoint deadline) {
  CallId id{};
  for (std::size_t i = 0; i < id.size(); i += 8) {
    const std::uint64_t word = random_.next();
    for (std::size_t k = 0; k < 8; ++k) id[i + k] = static_cast<unsigned char>(word >> (8 * k));
  }
  for (unsigned tries = 0; tries < options_.tries_max; ++tries) {
    auto answer = co_await ask(to, method, id, request, deadline);
    if (answer) co_return std::move(*answer);
  }
  co_return Refusal(Errc::gone, "the connection breaks again and again");
}

Task<std::optional<Answer>> CallClient::ask(PeerId to, const Method& method, const CallId& id, Frame request,
                                            TimePoint deadline) {
  const bool bulk = method.traffic == TrafficClass::bulk;
  auto reaching = bulk ? paths_.reach_for_tensors(to, deadline) : paths_.reach(to, deadline);
  const auto way = co_await std::move(reaching);
  if (!way) co_return Answer(way.error());
  const Duration left = deadline == TimePoint::max() ? options_.left_max : deadline - clock_.now();
  if (left <= Duration::zero()) co_return Answer(Refusal(Errc::late));
  OpenCall head;
  head.method = method.name;
  head.id = id;
  head.left_ms = static_cast<std::uint32_t>(to_ms(std::min(left, options_.left_max)));
  const auto stream = (*way)->open(method.traffic, *this, OpenHead(std::move(head)), std::move(request), true);
  if (!stream) co_return Answer(Refusal(stream.error()));
  Pending pending(*this, to, **way, *stream);
  pending.answer_bytes_max = method.answer_bytes_max;
  pending.traffic = method.traffic;
  while (!pending.answer && !pending.over) {
    const bool in_time = co_await pending.changed.wait_until(clock_, deadline);
    if (!in_time && !pending.answer && !pending.over) co_return Answer(Refusal(Errc::late));
  }
  co_return std::move(pending.answer);
}

void CallClient::on_message(Multiplexer& streams, StreamHandle stream, Frame answer) {
  const auto found = pending_.find(key_of(streams, stream));
  if (found == pending_.end()) return;
  Pending& pending = *found->second;
  streams.consumed(stream, pending.traffic, answer->size());
  if (answer->size() > pending.answer_bytes_max) {
    pending.answer = Answer(Refusal(Errc::bad_request, "an answer over its bound"));
  } else {
    pending.answer = Answer(std::move(answer));
  }
  pending.changed.notify();
}

void CallClient::on_closed(Multiplexer& streams, StreamHandle stream, StreamEnd end, const Refusal& why) {
  const auto found = pending_.find(key_of(streams, stream));
  if (found == pending_.end()) return;
  Pending& pending = *found->second;
  pending.over = true;
  if (!pending.answer && end == StreamEnd::refused) pending.answer = Answer(why);
  if (!pending.answer && end == StreamEnd::done) pending.answer = Answer(Refusal(Errc::bad_request, "no answer"));
  pending.changed.notify();
}

}  // namespace collab::net
