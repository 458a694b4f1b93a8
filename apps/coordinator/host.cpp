#include "host.hpp"

#include "directory/peer_record.hpp"
#include "epoch/manifest_options.hpp"
#include "monitor/pages.hpp"
#include "monitor/swarm_facts.hpp"
#include "node/interface_choice.hpp"
#include "node/owner_limits.hpp"
#include "node/proxy_choice.hpp"
#include "recipes/albert.hpp"

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace collab::coordinator {
namespace {

constexpr Duration kLookPeriod = std::chrono::seconds(1);
constexpr Duration kReadPause = std::chrono::milliseconds(100);  // people see no more than ten changes a second

std::uint64_t draw() {
  std::uint64_t number = 0;
  randombytes_buf(&number, sizeof number);
  return number;
}

node::NodeOptions node_options(const HostOptions& options) {
  node::NodeOptions out;
  out.home = options.home;
  out.run.run_id = options.run_id;
  for (const std::string& text : options.bootstrap) out.bootstrap.push_back(node::parse_peer_address(text));
  const auto listen = net::parse_address(options.listen, /*any_port=*/true);
  if (!listen || listen->leg != net::Leg::tcp) {
    throw Failure(ExitCode::usage, fmt::format("cannot listen on \"{}\": it is no address", options.listen),
                  "--listen HOST:PORT, [::]:4600 for instance");
  }
  out.listen = *listen;
  out.wss_port = options.wss_port;
  out.behind_proxy = node::choose_proxy(options.proxy, std::getenv).has_value();
  out.announce = options.announce;
  out.serve_directory = true;
  out.allow_list = options.allow_list;
  out.token_file = options.token_file;
  out.relay = node::parse_relay_mode(options.relay);
  out.relay_bytes_per_s = options.relay_rate_mbit * 1e6 / 8;
  out.role = "coordinator";
  out.name = options.name;
  out.software = "collab-coordinator 0.1.0";
  if (options.answer_lan) out.lan.emplace();
  if (options.port_map) node::ask_own_router(out);
  return out;
}

}  // namespace

Host::Host(HostOptions options, Log& log, Identity identity, const Signed& statement, const RunFiles& files)
    : options_(std::move(options)),
      log_(log),
      tcp_(runtime_.loop(), runtime_.clock(),
           net::TcpNetwork::behind(node::choose_proxy(options_.proxy, std::getenv),
                                   node::choose_interface(options_.interface))),
      network_(tcp_, runtime_.clock(), node::owner_limits(options_.limit_up_mbit, options_.limit_down_mbit)),
      random_(draw()) {
  auto manifest = node::read_manifest(statement, options_.run_id, std::nullopt);
  if (!manifest)
    throw Failure(ExitCode::incompatible, manifest.error().reason, "another --home, or --new-run in an empty one");
  manifest_ = std::move(*manifest);
  recipe_ = recipe_of(manifest_);
  if (manifest_.admission == Admission::allow_list && options_.allow_list.empty()) {
    // the peers rely on us: without the list everybody would be admitted
    throw Failure(ExitCode::usage,
                  fmt::format("\"{}\" admits a list of peers, and the list is missing", manifest_.run_id),
                  "the same command with --allow FILE, peer ids one a line");
  }
  runtime_.on_loop([&] {
    const node::NodeNeeds needs{
        runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, random_.derive("node"), log_, metrics_};
    stopping_ = std::make_unique<Signal>(runtime_.loop());
    node_ = std::make_unique<node::Node>(needs, std::move(identity), node_options(options_));
    node_->found(statement);
    // also where this one does not average: who asks it all the same is to hear that it is in no group, not in no
    // protocol
    node_->endpoint().allow_conversation(matchmaking::row());
    node_->endpoint().allow_conversation(averaging::round_protocol());
    node_->endpoint().handle(averaging::counted_method(),
                             [this](PeerId from, Frame request, TimePoint /*deadline*/) -> Task<net::Answer> {
                               if (!stand_in_) co_return Refusal(Errc::gone);
                               co_return stand_in_->was_counted(from, request);
                             });
    members_ = node_->directory().watch(std::string(directory::kPeerKey));
    told_rounds_ = node_->directory().watch(std::string(monitor::kRoundKey));
    told_evaluations_ = node_->directory().watch(std::string(monitor::kEvaluationKey));
    const auto expelled = [&of = node_->endpoint()](const PeerId& peer) { return of.expelled(peer); };
    progress::TrackerOptions tracker;
    tracker.target_batch = manifest_.target_batch;
    tracker.read_pause = kReadPause;
    tracker_ = std::make_unique<progress::Tracker>(
        progress::Tracker::Needs{node_->directory(), runtime_.clock(), log_, random_.derive("tracker"), runtime_.loop(),
                                 node_->self(), &metrics_, expelled},
        tracker);
    const auto no_state = [](std::uint64_t) -> Task<Result<std::shared_ptr<const state::Snapshot>>> {
      co_return Errc::gone;
    };
    state::StoreOptions store;
    const bool carries_tensors = node::parse_relay_mode(options_.relay) == nat::RelayMode::bulk;
    const double for_others = node::share_for_others(network_.caps().up.bytes_per_s);
    store.pass_on = state::pass_on_options(carries_tensors, std::min(options_.relay_rate_mbit * 1e6 / 8, for_others));
    store_ = std::make_unique<state::Store>(node_->endpoint(), runtime_.clock(), runtime_.loop(), runtime_.workers(),
                                            log_, no_state, store);
    events_ = std::make_unique<monitor::Events>(runtime_.loop(), runtime_.clock());
    if (options_.checkpoint_every > 0) make_keeper(files.tokenizer);
    if (options_.average && recipe_.job == recipes::kAlbert) make_stand_in();  // of others only peers know the tensors
    const monitor::Watched watched{[this] { return view(); }, rounds_, *events_, metrics_, runtime_.clock(), &losses_};
    if (options_.dashboard != "off") {
      monitor::HttpOptions http;
      const auto at = net::parse_address(options_.dashboard, /*any_port=*/true);
      if (!at || at->leg != net::Leg::tcp) {
        throw Failure(ExitCode::usage, fmt::format("cannot serve HTTP on \"{}\": it is no address", options_.dashboard),
                      "--dashboard 127.0.0.1:4680, or off");
      }
      http.listen = *at;
      monitor::HttpRoutes routes = monitor::api_routes(watched);
      monitor::add_pages(routes);
      http_ = std::make_unique<monitor::HttpServer>(runtime_.loop(), runtime_.clock(), log_, std::move(routes), http);
    }
    const monitor::StatusCommands commands{[watched] { return monitor::current_state_json(watched); },
                                           [this] { asked_to_leave_ = true; }};
    status_socket_ =
        std::make_unique<monitor::StatusSocket>(runtime_.loop(), runtime_.clock(), log_, options_.home, commands);
  });
  served_ = asio::co_spawn(runtime_.loop(), serve(files), asio::use_future);
}

Host::~Host() {
  const auto leave = [this]() -> Task<> {
    if (keeper_) keeper_->leave();
    if (stand_in_) co_await stand_in_->leave();
    co_await node_->leave();
    stop_ = true;
    stopping_->notify();
  };
  runtime_.call(leave());
  served_.wait();
  runtime_.on_loop([this] {
    status_socket_.reset();
    http_.reset();
    stand_in_.reset();
    keeper_.reset();
    store_.reset();
    tracker_.reset();
    told_evaluations_.reset();
    told_rounds_.reset();
    members_.reset();
    node_.reset();
    events_.reset();
    stopping_.reset();
  });
}

void Host::make_keeper(const std::filesystem::path& tokenizer) {
  KeeperOptions options;
  options.run_id = manifest_.run_id;
  options.recipe = recipe_;
  options.tokenizer = tokenizer;
  options.folder = options_.home / "checkpoints";
  options.every = options_.checkpoint_every;
  options.keep = options_.keep;
  const Keeper::Context context{node_->endpoint(), runtime_.clock(),        node_->directory(),
                                *tracker_,         runtime_.workers(),      log_,
                                *events_,          random_.derive("keeper")};
  keeper_ = std::make_unique<Keeper>(context, std::move(options));
}

/// Of what a newer coordinator, or one of another model, has founded the rest can be served all the same.
void Host::make_stand_in() try {
  epoch::MemberOptions options = epoch::member_options(manifest_, recipes::albert_schema(recipe_));
  options.incarnation = draw();
  epoch::Auxiliary::Context context{node_->endpoint(), runtime_.clock(),  node_->directory(), *tracker_, log_,
                                    metrics_,          node_->identity(), runtime_.loop()};
  context.can_be_dialled = [this] { return !nat::only_dials(node_->reachability().state()); };
  stand_in_ = std::make_unique<StandIn>(context, *events_, std::move(options));
} catch (const Failure& failure) {
  log_.warn("stand_in.cannot", {{"why", failure.cause()}, {"advice", "where nobody can be dialled: --role aux"}});
}

Task<> Host::serve(const RunFiles& files) {
  const RunFiles own = files;  // the caller's may be gone before we are
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("node", node_->run());
    tasks.spawn("progress", tracker_->run());
    tasks.spawn("state", store_->run());
    if (http_) tasks.spawn("http", http_->run());
    tasks.spawn("status", status_socket_->run());
    const bool tokenizer = manifest_.tokenizer != Digest();
    const bool data = manifest_.data != Digest();
    if (tokenizer) (void)co_await store_->add_file(manifest_.tokenizer, own.tokenizer);  // two are never too many
    if (data) (void)co_await store_->add_file(manifest_.data, own.prepared);
    if (keeper_) tasks.spawn("keeper", keeper_->run());
    if (stand_in_) tasks.spawn("stand_in", stand_in_->run());
    tasks.spawn("watch", watch_peers());
    while (!stop_) co_await stopping_->wait();
  };
  const auto on_failure = [this](std::string_view task, std::exception_ptr what) {
    log_.error("task.failed", {{"task", task}});
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(what);
  };
  auto scope = task_scope(on_failure, body);
  co_await std::move(scope);
}

/// Tells those who follow the events what has changed in the swarm.
Task<> Host::watch_peers() {
  std::map<PeerId, std::uint64_t> before;
  std::uint64_t epoch = 0;
  for (;;) {
    std::map<PeerId, std::uint64_t> now;
    for (const auto& [peer, record] : tracker_->others()) {
      if (record.taking_part) now.emplace(peer, record.epoch);
    }
    for (const auto& [peer, at] : now) {
      if (!before.contains(peer)) events_->add({monitor::EventType::peer_joined, at, peer, {}});
    }
    for (const auto& [peer, at] : before) {
      if (!now.contains(peer)) events_->add({monitor::EventType::peer_left, at, peer, {}});
    }
    const std::uint64_t reached = tracker_->global_epoch().value_or(epoch);
    if (reached > epoch) {
      events_->add({monitor::EventType::epoch_finished, reached, {}, {{"loss", tracker_->loss()}}});
      metrics_.set("collab_epoch", static_cast<double>(reached));
    }
    epoch = std::max(epoch, reached);
    for (const auto& [peer, record] : tracker_->others()) {
      if (record.epoch <= epoch) losses_.note_training(peer, record.epoch, record.loss);
    }
    before = std::move(now);
    read_reports(epoch);
    co_await tracker_->changed().wait_until(runtime_.clock(), runtime_.clock().now() + kLookPeriod);
  }
}

/// Rounds and evaluations as peers tell them. `epoch` is the run's: nobody can have evaluated a later one.
void Host::read_reports(std::uint64_t epoch) {
  std::vector<PeerId> members;
  for (const directory::Record& record : members_->records()) members.push_back(record.owner);
  for (monitor::RoundView& round : reports_.rounds(told_rounds_->records(), members, runtime_.clock().unix_ms())) {
    if (round.result != "committed")
      events_->add({monitor::EventType::round_failed, round.epoch, round.told_by, {{"reason", round.reason}}});
    rounds_.add(std::move(round));
  }
  for (const monitor::ToldEvaluation& told : reports_.evaluations(told_evaluations_->records())) {
    if (told.epoch > epoch) continue;
    losses_.note_heldout(told.by, told.epoch, told.loss);
    events_->add({monitor::EventType::eval_done, told.epoch, told.by, {{"loss", told.loss}}});
  }
}

/// Where others dial: as the manifest tells everybody, else where this machine listens, if that is a name at all.
std::vector<node::PeerAddress> Host::dialled() {
  std::vector<node::PeerAddress> out;
  for (const node::Contact& contact : manifest_.coordinators) {
    for (const net::Address& address : contact.addresses) out.push_back({address, std::nullopt});
  }
  if (out.empty()) {
    for (const net::Address& address : node_->endpoint().listening()) {
      if (address.host != "::" && address.host != "0.0.0.0") out.push_back({address, std::nullopt});
    }
  }
  if (out.size() > node::kLinkAddressesMax) out.resize(node::kLinkAddressesMax);
  return out;
}

void Host::invite(monitor::RunView& run) {
  const node::RunName name{manifest_.run_id, manifest_.authority};
  const auto places = dialled();
  const std::string place = places.empty() ? "HOST:PORT" : node::to_string(places.front());
  run.join_command = fmt::format("{} --run-id {} --bootstrap {}", program(), node::to_string(name), place);
  if (!places.empty()) run.join_link = node::to_string(node::JoinLink{name, places});
}

monitor::SwarmView Host::view() {
  monitor::RunView known;
  known.run_id = manifest_.run_id;
  known.self = node_->self();
  known.connected = node_->directory().connected();
  known.target_batch_samples = manifest_.target_batch;
  known.loss_train = tracker_->loss();
  const auto heldout = losses_.heldout().points();
  if (!heldout.empty()) known.loss_heldout = heldout.back().mean();
  const auto saved_at = keeper_ ? keeper_->saved_at() : std::nullopt;
  if (saved_at) known.checkpoint_age_s = to_seconds(runtime_.clock().now() - *saved_at);
  invite(known);
  const auto standings = tracker_->others();
  const auto link = [this](const PeerId& peer) { return node_->endpoint().link(peer); };
  const monitor::FactSources sources{members_->records(), standings, link, runtime_.clock().unix_ms()};
  return monitor::view_swarm(monitor::gather_facts(std::move(known), sources));
}

HostStatus Host::status() {
  HostStatus status;
  runtime_.on_loop([&] {
    status.epoch = tracker_->global_epoch().value_or(0);
    status.peers = tracker_->current_peers() - 1;
    status.loss = tracker_->loss();
    status.undialled = tracker_->nobody_can_be_dialled();
    status.averages = status.undialled && stand_in_;
    status.samples_per_s = progress::samples_per_s(tracker_->others(), status.epoch);
  });
  return status;
}

std::vector<std::string> Host::addresses() {
  std::vector<std::string> out;
  runtime_.on_loop([&] {
    for (const net::Address& address : node_->endpoint().listening())
      out.push_back(node::to_string(node::PeerAddress{address, node_->self()}));
  });
  return out;
}

std::string Host::dashboard() {
  std::string out;
  runtime_.on_loop([&] {
    if (http_) out = net::to_string(http_->local());
  });
  return out;
}

void Host::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace collab::coordinator
