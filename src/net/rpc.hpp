#pragma once
// Calls: a question, and the one answer to it. Every method of every protocol passes here.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "crypto/access.hpp"
#include "net/endpoint.hpp"
#include "net/limits.hpp"
#include "net/paths.hpp"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace collab::net {

std::string_view name(Errc) noexcept;

struct MethodRow {
  Method method;
  Handler handler;  ///< empty: the row of a conversation
};

/// Everything that others may ask. Filled before the node starts.
class MethodTable {
 public:
  /// A name of at most 64 bytes, once.
  void add(Method method, Handler handler);
  const MethodRow* find(std::string_view name) const;
  const std::map<std::string, MethodRow, std::less<>>& rows() const noexcept { return rows_; }

 private:
  std::map<std::string, MethodRow, std::less<>> rows_;
};

struct CallOptions {
  std::size_t of_peer_max = 64;  ///< in flight, asked by one peer
  std::size_t of_node_max = 4096;
  Duration remembered_for = std::chrono::seconds(120);
  std::size_t remembered_max = 1024;                         ///< answers of one peer
  std::size_t remembered_bytes_max = std::size_t(1) << 20U;  ///< of one peer; an older answer is then given as `stale`
  std::size_t remembered_bytes_of_node_max = std::size_t(16) << 20U;  ///< of all: identities are free
  Duration left_max = std::chrono::hours(1);
  Duration grace = std::chrono::seconds(1);                       ///< after its deadline a call's stream is reset
  Duration request_time_max = std::chrono::seconds(60);           ///< for a question to arrive whole
  Duration answer_stalled_max = std::chrono::seconds(30);         ///< while no byte of an answer leaves
  std::size_t answer_bytes_of_node_max = std::size_t(32) << 20U;  ///< unsent, to all; more: `busy`
  unsigned tries_max = 3;                                         ///< of a call whose connection breaks
};

/// Answers calls. For each, in this order and before anything runs: the method exists, size, rate, claim, deadline,
/// calls in flight. A question that was asked before gets the same answer; its handler runs once, unless its method is
/// idempotent.
class CallServer final : public StreamUser {
 public:
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Paths& paths;
    const Access& access;
    Log& log;
    Metrics& metrics;
    const MethodTable& methods;
  };

  CallServer(const Needs& needs, const CallOptions& options) : needs_(needs), options_(options) {}

  /// Where handlers run; null: nowhere any more.
  void use(TaskGroup* tasks) { tasks_ = tasks; }
  /// `rtt`: of the asker's connection. Called by whoever accepts streams.
  Accepted on_open(Multiplexer&, StreamHandle, TrafficClass, const OpenCall&, std::size_t message_bytes, Duration rtt);
  /// Ends handlers whose deadline has passed and streams that hold their place in vain, forgets old answers.
  void tick(TimePoint now);

  void on_message(Multiplexer&, StreamHandle, Frame message) override;
  void on_closed(Multiplexer&, StreamHandle, StreamEnd, const Refusal&) override;

 private:
  struct Remembered {
    std::optional<Answer> answer;  ///< empty: its handler runs
    std::vector<StreamKey> asking;
    TaskGroup::TaskId task = 0;
    TimePoint deadline;
    TimePoint at;
    std::uint64_t kept = 0;  ///< in kept_; 0: it has no bytes
  };
  /// A call whose handler runs.
  struct Running {
    TimePoint deadline;
    PeerId from;
    CallId id{};
    auto operator<=>(const Running&) const = default;
  };
  /// An answer with bytes that is remembered.
  struct Kept {
    PeerId from;
    CallId id{};
  };
  struct Asker {
    std::map<const MethodRow*, TokenBucket> rates;
    std::map<CallId, Remembered> answers;
    std::deque<CallId> order;  ///< of `answers`, by age
    std::size_t answer_bytes = 0;
    std::size_t in_flight = 0;
  };
  struct InFlight {
    PeerId from;
    const MethodRow* row = nullptr;
    CallId id{};
    TimePoint deadline;
    TimePoint moved;         ///< opened, heard, or last sent something
    std::size_t unsent = 0;  ///< of the answer, in answer_bytes_
    bool heard = false;      ///< the whole question is here
    bool answered = false;
  };
  class Settle;

  Refusal refuse(const std::string& method, Refusal why);
  std::optional<Refusal> judge(Asker&, const MethodRow&, const PeerId& from, const OpenCall&, std::size_t message_bytes,
                               TimePoint deadline);
  Task<> serve(PeerId from, CallId id, const MethodRow* row, Frame request, TimePoint deadline);
  void settle(const PeerId& from, const CallId& id, const MethodRow& row, Answer answer);
  void reply(StreamKey stream, const Answer& answer);
  void remember(const PeerId& from, const CallId& id, Answer answer);
  void drop_bytes(Asker&, Remembered&);
  void forget_some(Asker&, std::size_t count_max, TimePoint answered_before);
  void forget(TimePoint now);
  bool is_overdue(const StreamKey& key, InFlight& call, TimePoint now);

  Needs needs_;
  CallOptions options_;
  TaskGroup* tasks_ = nullptr;
  std::map<PeerId, Asker> askers_;
  std::set<Running> running_;  ///< the next deadline first
  std::map<StreamKey, InFlight> in_flight_;
  std::size_t answer_bytes_ = 0;        ///< unsent
  std::map<std::uint64_t, Kept> kept_;  ///< oldest first
  std::uint64_t next_kept_ = 1;
  std::size_t kept_bytes_ = 0;
  TimePoint forgot_{};
};

/// Asks. A call whose connection breaks is asked again, with the same id, on the next.
class CallClient final : public StreamUser {
 public:
  CallClient(asio::any_io_executor executor, Clock& clock, Paths& paths, Random random, const CallOptions& options)
      : executor_(std::move(executor)), clock_(clock), paths_(paths), random_(random), options_(options) {}

  /// Errors: those of the handler; `gone`, `late`, `busy` when too many streams are open; `bad_request` for an answer
  /// over the method's size.
  Task<Answer> call(PeerId to, Method method, Frame request, TimePoint deadline);

  void on_message(Multiplexer&, StreamHandle, Frame message) override;
  void on_closed(Multiplexer&, StreamHandle, StreamEnd, const Refusal&) override;

 private:
  struct Pending;
  /// Nothing: the connection broke, ask again.
  Task<std::optional<Answer>> ask(PeerId to, const Method& method, const CallId& id, Frame request, TimePoint deadline);

  asio::any_io_executor executor_;
  Clock& clock_;
  Paths& paths_;
  Random random_;
  CallOptions options_;
  std::map<StreamKey, Pending*> pending_;
};

}  // namespace collab::net
