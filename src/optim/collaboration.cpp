#include "optim/collaboration.hpp"

#include "averaging/all_reduce.hpp"
#include "averaging/first_groups.hpp"
#include "matchmaking/matchmaker.hpp"
#include "node/interface_choice.hpp"
#include "node/owner_limits.hpp"
#include "node/proxy_choice.hpp"
#include "node/run_book.hpp"
#include "optim/parts.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace collab::optim {
namespace {

constexpr Duration kGoodByeMin = std::chrono::seconds(1);
constexpr Duration kRatePeriod = std::chrono::seconds(2);
constexpr std::size_t kEventsMax = 1024;

std::uint64_t draw() {
  std::uint64_t number = 0;
  randombytes_buf(&number, sizeof number);
  return number;
}

double relay_bytes_per_s(const RunOptions& options) {
  return options.relay_rate_mbit * 1e6 / 8;
}

}  // namespace

Collaboration::Parts::Parts(RunOptions run_options)
    : options(std::move(run_options)),
      run(node::parse_run_name(options.run_id)),
      home(options.home.empty() ? node::default_home(run.run_id) : options.home),
      seed(draw()),
      runtime(options.workers),
      tcp(runtime.loop(), runtime.clock(),
          net::TcpNetwork::behind(node::choose_proxy(options.proxy, std::getenv),
                                  node::choose_interface(options.interface))),
      network(tcp, runtime.clock(), node::owner_limits(options.limit_up_mbit, options.limit_down_mbit)) {
  incarnation = static_cast<std::uint64_t>(runtime.clock().unix_ms());
  if (options.authority) run.authority = options.authority;
  Identity identity = Identity::load_or_create(home / "identity.key");
  id = identity.id();
  name = options.name.empty() ? "peer-" + id.short_text() : options.name;
  log = Log(options.log);
  runtime.on_loop([&] {
    visit_over = std::make_unique<Signal>(runtime.loop());
    stopping = std::make_unique<Signal>(runtime.loop());
    const node::NodeNeeds needs{
        runtime.loop(), runtime.workers(), runtime.clock(), network, Random(seed).derive("node"), log, metrics};
    node::NodeOptions node_options = node_options_of(options);
    node_options.name = name;
    node = std::make_unique<node::Node>(needs, std::move(identity), std::move(node_options));
  });
}

Collaboration::Parts::~Parts() {
  runtime.on_loop([this] {
    store.reset();
    tracker.reset();
    node.reset();
    stopping.reset();
    visit_over.reset();
  });
}

node::NodeOptions node_options_of(const RunOptions& options) {
  node::NodeOptions out;
  out.run = node::parse_run_name(options.run_id);
  if (options.authority) out.run.authority = options.authority;
  out.home = options.home.empty() ? node::default_home(out.run.run_id) : options.home;
  for (const std::string& text : options.bootstrap) {
    if (node::looks_like_link(text)) {
      const node::JoinLink link = node::parse_join_link(text);
      if (link.run.authority) out.run.authority = link.run.authority;
      out.bootstrap.insert(out.bootstrap.end(), link.addresses.begin(), link.addresses.end());
    } else {
      out.bootstrap.push_back(node::parse_peer_address(text));
    }
  }
  const auto files = node::run_book_files(std::getenv);
  const node::RunBook book = node::read_run_book(files);
  if (const auto entry = book.find(out.run.run_id); entry != book.end()) out.run_book_entry = entry->second;
  out.run_book = files.back();
  if (!options.listen.empty()) {
    const auto address = net::parse_address(options.listen, /*any_port=*/true);
    if (!address || address->leg != net::Leg::tcp) {
      throw Failure(ExitCode::usage, fmt::format("cannot listen on \"{}\": it is no address", options.listen),
                    "--listen HOST:PORT, [::]:4600 for instance");
    }
    out.listen = *address;
  }
  out.behind_proxy = node::choose_proxy(options.proxy, std::getenv).has_value();
  out.wss_port = options.wss_port;
  // nobody dials in through a proxy, but who says where to listen may know another way
  out.client = options.client || (out.behind_proxy && options.listen.empty() && options.wss_port == 0);
  out.relay = node::parse_relay_mode(options.relay);
  out.relay_bytes_per_s = relay_bytes_per_s(options);
  out.token_file = options.token;
  out.allow_list = options.allow_list;
  out.role = !options.role.empty() ? options.role : out.client ? "client" : "full";
  out.software = "collab-peer 0.1.0";
  if (options.discover_lan) out.lan.emplace();
  if (options.port_map) node::ask_own_router(out);
  return out;
}

void Collaboration::Parts::assemble() {
  net::Endpoint& endpoint = node->endpoint();
  endpoint.allow_conversation(matchmaking::row());
  endpoint.allow_conversation(averaging::round_protocol());
  endpoint.allow_conversation(epoch::legacy_protocol());
  endpoint.handle(epoch::take_on_method(), [this](PeerId from, Frame request, TimePoint deadline) {
    return take_on(from, std::move(request), deadline);
  });
  endpoint.handle(averaging::counted_method(), [this](PeerId from, Frame request, TimePoint /*deadline*/) {
    return was_counted(from, std::move(request));
  });
  const auto expelled = [&of = node->endpoint()](const PeerId& peer) { return of.expelled(peer); };
  progress::TrackerOptions tracker_options;
  tracker_options.target_batch = manifest->target_batch;
  tracker = std::make_unique<progress::Tracker>(
      progress::Tracker::Needs{node->directory(), runtime.clock(), log, Random(seed).derive("tracker"), runtime.loop(),
                               id, &metrics, expelled},
      tracker_options);
  state::StoreOptions store_options;
  const bool carries_tensors = node::parse_relay_mode(options.relay) == nat::RelayMode::bulk;
  const double for_others = node::share_for_others(network.caps().up.bytes_per_s);
  store_options.pass_on = state::pass_on_options(carries_tensors, std::min(relay_bytes_per_s(options), for_others));
  store = std::make_unique<state::Store>(
      endpoint, runtime.clock(), runtime.loop(), runtime.workers(), log,
      [this](std::uint64_t epoch) { return snapshot(epoch); }, store_options);
}

/// While a task is in the optimizer's objects, the optimizer may end on its own thread, but they must not.
struct Collaboration::Parts::Visit {
  explicit Visit(Parts& of) : parts(of) { ++parts.visits; }
  ~Visit() {
    if (--parts.visits == 0) parts.visit_over->notify();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  Parts& parts;
};

Task<> Collaboration::Parts::visited() {
  while (visits > 0) co_await visit_over->wait();
}

Task<Result<std::shared_ptr<const state::Snapshot>>> Collaboration::Parts::snapshot(std::uint64_t epoch) {
  const Visit visit(*this);
  if (member != nullptr) {
    auto taken = co_await member->snapshot(epoch);
    if (taken || !last_state) co_return taken;  // else its trainer has ended meanwhile
  }
  if (!last_state) co_return Errc::gone;
  if (epoch != last_state->epoch) co_return epoch < last_state->epoch ? Errc::stale : Errc::late;
  co_return last_state;
}

Task<net::Answer> Collaboration::Parts::take_on(PeerId from, Frame request, TimePoint deadline) {
  const Visit visit(*this);
  if (member == nullptr) co_return Refusal(Errc::gone);
  co_return co_await member->take_on(from, std::move(request), deadline);
}

Task<net::Answer> Collaboration::Parts::was_counted(PeerId from, Frame request) {
  if (member != nullptr) co_return member->was_counted(from, request);
  if (auxiliary != nullptr) co_return auxiliary->was_counted(from, request);
  co_return Refusal(Errc::gone);
}

Task<> Collaboration::Parts::serve() {
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    tasks.spawn("node", node->run());
    tasks.spawn("progress", tracker->run());
    tasks.spawn("state", store->run());
    while (!stop) co_await stopping->wait();
  };
  const auto on_task_failure = [this](std::string_view task, std::exception_ptr what) { fail(task, std::move(what)); };
  auto scope = task_scope(on_task_failure, body);
  co_await std::move(scope);
}

void Collaboration::Parts::measure_rates(Progress& progress) {
  const std::lock_guard lock(mutex);
  const TimePoint now = runtime.clock().now();
  if (now - rates.at >= kRatePeriod) {
    const double seconds = to_seconds(now - rates.at);
    const double sent = moved("sent");
    const double received = moved("received");
    if (rates.at != TimePoint()) {
      rates.up_bytes_per_s = (sent - rates.sent) / seconds;
      rates.down_bytes_per_s = (received - rates.received) / seconds;
    }
    rates.at = now;
    rates.sent = sent;
    rates.received = received;
  }
  progress.up_bytes_per_s = rates.up_bytes_per_s;
  progress.down_bytes_per_s = rates.down_bytes_per_s;
}

double Collaboration::Parts::moved(const char* direction) const {
  double sum = 0;
  for (const char* traffic : {"control", "latency", "bulk"}) {
    sum += metrics.value("collab_bytes_total", {{"direction", direction}, {"class", traffic}});
  }
  return sum;
}

Task<> Collaboration::Parts::leave_rounds() {
  const Visit visit(*this);
  if (member != nullptr) co_await member->leave();
  if (auxiliary != nullptr) co_await auxiliary->leave();
}

Task<> Collaboration::Parts::leave(TimePoint laggards_until) {
  co_await leave_rounds();
  co_await tracker->leave(laggards_until, tracker->epoch() >= epochs);
  co_await node->leave();
}

void Collaboration::Parts::fail(std::string_view task, std::exception_ptr what) {
  log.error("task.failed", {{"task", task}});
  {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(what);
  }
  if (on_failure) on_failure();
}

void Collaboration::Parts::check() {
  const std::lock_guard lock(mutex);
  if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
}

void Collaboration::Parts::tell(Event event) {
  const std::lock_guard lock(mutex);
  if (events.size() == kEventsMax) events.pop_front();
  events.push_back(std::move(event));
}

void Collaboration::Parts::deliver_events() {
  std::deque<Event> news;
  std::function<void(const Event&)> to;
  {
    const std::lock_guard lock(mutex);
    news = std::exchange(events, {});
    to = callback;
  }
  if (!to) return;
  for (const Event& event : news) to(event);
}

void Collaboration::Parts::tell_trainer_of_leaving() {
  const std::lock_guard lock(mutex);
  if (on_leave) on_leave();
}

Collaboration::Collaboration(RunOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

Collaboration::~Collaboration() {
  leave();
}

void Collaboration::start(std::function<bool(const std::string&)> waiting) {
  Parts& parts = *parts_;
  if (parts.started) return;
  if (parts.gave_up)
    throw Failure(ExitCode::usage, "this Collaboration was told to give up its run", "a new Collaboration");
  const TimePoint deadline = parts.runtime.clock().now() + parts.options.join_patience;
  using Joined = boost::system::result<node::Manifest, Refusal>;
  const auto join = [&parts, deadline]() -> Task<Joined> { co_return co_await parts.node->join(deadline); };
  asio::cancellation_signal cancel;
  auto joined =
      asio::co_spawn(parts.runtime.loop(), join(), asio::bind_cancellation_slot(cancel.slot(), asio::use_future));
  while (joined.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) {
    if (!waiting || waiting({})) continue;
    parts.runtime.on_loop([&] { cancel.emit(asio::cancellation_type::terminal); });
    joined.wait();
    parts.gave_up = true;
    throw Failure(ExitCode::done, "stopped while looking for the run", "the same command goes on");
  }
  Joined manifest = joined.get();
  if (!manifest) {
    std::optional<Failure> failure;
    parts.runtime.on_loop([&] { failure = parts.node->join_failure(manifest.error()); });
    throw *failure;
  }
  parts.manifest = std::move(*manifest);
  parts.runtime.on_loop([&] { parts.assemble(); });
  parts.served = asio::co_spawn(parts.runtime.loop(), parts.serve(), asio::use_future);
  parts.started = true;
}

bool Collaboration::started() const noexcept {
  return parts_->started;
}

const node::Manifest& Collaboration::manifest() const {
  return parts_->manifest.value();
}

void Collaboration::leave() {
  Parts& parts = *parts_;
  if (!parts.started || parts.left.exchange(true)) return;
  parts.tell_trainer_of_leaving();
  const TimePoint now = parts.runtime.clock().now();
  const TimePoint deadline = std::max(parts.leave_by.value_or(now + parts.options.leave_wait), now + kGoodByeMin);
  const auto leave = [&parts, deadline]() -> Task<Result<>> {
    co_await parts.leave(deadline - kGoodByeMin);
    co_return Result<>();
  };
  const auto in_time = [&parts, &leave, deadline]() -> Task<Result<>> {
    auto leaving = leave();
    co_return co_await with_deadline(parts.runtime.clock(), deadline, std::move(leaving));
  };
  (void)parts.runtime.call(in_time());  // late: somebody is told by our silence instead
  parts.runtime.on_loop([&] {
    parts.stop = true;
    parts.stopping->notify();
  });
  parts.served.get();
}

Progress Collaboration::progress() const {
  Parts& parts = *parts_;
  Progress progress;
  if (!parts.started || parts.left) return progress;
  parts.measure_rates(progress);
  parts.runtime.on_loop([&] {
    progress.reachability = nat::name(parts.node->reachability().state());
    progress.path = parts.node->endpoint().way_out();
    progress.target_batch = parts.manifest->target_batch;
    if (parts.member == nullptr) {
      progress.epoch = parts.tracker->epoch();
      progress.samples = static_cast<std::uint64_t>(std::max(0.0, parts.tracker->samples()));
      progress.peers = parts.tracker->taking_part().size();
      progress.eta_s = parts.tracker->eta_s();
      progress.loss = parts.tracker->loss();
      return;
    }
    const epoch::MemberStatus status = parts.member->status();
    progress.epoch = status.epoch;
    progress.samples = status.samples;
    progress.own_samples = status.own_samples;
    progress.peers = status.peers;
    progress.eta_s = status.eta_s;
    progress.loss = status.loss;
  });
  return progress;
}

void Collaboration::on_event(std::function<void(const Event&)> callback) {
  const std::lock_guard lock(parts_->mutex);
  parts_->callback = std::move(callback);
}

std::string Collaboration::name() const {
  return parts_->name;
}

PeerId Collaboration::id() const {
  return parts_->id;
}

const std::filesystem::path& Collaboration::home() const {
  return parts_->home;
}

Collaboration::Parts& Collaboration::parts() {
  return *parts_;
}

}  // namespace collab::optim
