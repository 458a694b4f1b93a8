#include "sim/grid_swarm.hpp"

#include "sim/grid_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace collab::sim {
namespace {

constexpr Duration kFirstGroup = std::chrono::seconds(20);
constexpr std::uint16_t kPort = 4600;

Identity identity_of(const Random& root, std::size_t number, const SignatureScheme& scheme) {
  Random random = root.derive(fmt::format("identity.{}", number));
  Identity::Seed seed{};
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<unsigned char>(random.next());
  return Identity::generate(seed, scheme);
}

GridPeer::Contribution draw(const Random& root, std::size_t number, const GridOptions& options) {
  Random random = root.derive(fmt::format("values.{}", number));
  GridPeer::Contribution own;
  own.weight = 1 + random.below(options.weight_max);
  own.work.add({number * options.weight_max, own.weight / 2});
  own.work.add({(options.peers + number) * options.weight_max, own.weight - own.weight / 2});
  for (std::size_t i = 0; i < options.values; ++i) own.values.push_back(static_cast<float>(standard_normal(random)));
  return own;
}

}  // namespace

GridSwarm::GridSwarm(GridOptions options)
    : options_(std::move(options)),
      network_(world_, options_.seed, options_.links),
      codecs_(grid_codecs(options_.values, options_.codec)) {
  const bool fake = options_.crypto == Crypto::fake;
  const SignatureScheme& scheme = fake ? signatures_ : ed25519();
  if (fake) network_.secure_by(channels_);
  const Random root(options_.seed);
  net::Address at;
  at.port = kPort;
  std::vector<PeerId> ids;
  for (std::size_t number = 0; number < options_.peers; ++number) {
    const LineOptions& line = number < options_.lines.size() ? options_.lines[number] : options_.line;
    hosts_.push_back(&network_.add_host(fmt::format("peer{}", number), line));
    at.host = hosts_.back()->address();
    const GridPeer::Needs needs{world_.executor(), hosts_.back()->clock(), *hosts_.back(), codecs_, at};
    peers_.push_back(std::make_unique<GridPeer>(needs, identity_of(root, number, scheme), options_.seed + number,
                                                draw(root, number, options_)));
    if (number < options_.lines.size() && !options_.equal_split)
      peers_.back()->measured(static_cast<std::uint64_t>(line.up_bytes_per_s),
                              static_cast<std::uint64_t>(line.down_bytes_per_s));
    ids.push_back(peers_.back()->id());
    numbers_.emplace(ids.back(), number);
    const auto seen = [this, number](LogLevel, std::string_view event, Log::Fields fields) {
      if (on_event_) on_event_(number, event, fields);
    };
    peers_.back()->observe(seen);
    passes_.push_back(std::make_unique<TaskGroup>(world_.executor(), rethrow));
  }
  grid_.id = Hasher("grid swarm").add(options_.seed).finish();
  grid_.radices = options_.radices;
  if (grid_.radices.empty()) grid_.radices = matchmaking::radices_for(options_.peers, options_.group_size_max);
  schedule_ = std::make_shared<const matchmaking::Schedule>(grid_, ids, options_.seed);
}

GridSwarm::~GridSwarm() = default;

void GridSwarm::kill(std::size_t peer) {
  network_.kill(*hosts_.at(peer));
}

void GridSwarm::freeze(std::size_t peer, Duration how_long) {
  network_.freeze(*hosts_.at(peer));
  passes_[peer]->spawn("thaw", thaw_later(peer, how_long));
}

/// Everybody knows where those are whom it will meet.
void GridSwarm::introduce() {
  for (auto& peer : peers_) peer->listen();
  for (auto& peer : peers_) {
    for (std::uint32_t round = 1; round <= schedule_->rounds(); ++round) {
      for (const PeerId& other : schedule_->group(peer->id(), round))
        if (other != peer->id()) peer->knows(*peers_[numbers_.at(other)]);
    }
  }
}

averaging::Pass GridSwarm::pass_of(std::uint64_t epoch, TimePoint deadline) const {
  averaging::Pass pass;
  pass.grid = grid_;
  pass.schedule = schedule_;
  pass.epoch = epoch;
  pass.weight_max = options_.weight_max;
  pass.deadline = deadline;
  return pass;
}

Task<> GridSwarm::live(std::size_t number) {
  averaging::Pass pass = pass_of(options_.seed, hosts_[number]->clock().now() + kFirstGroup);
  co_await peers_[number]->run(std::move(pass));
  if (hosts_[number]->alive()) length_ = std::max(length_, world_.clock().now().time_since_epoch());
}

Task<> GridSwarm::thaw_later(std::size_t number, Duration how_long) {
  co_await world_.clock().sleep_until(world_.clock().now() + how_long);
  network_.thaw(*hosts_[number]);
}

Task<> GridSwarm::kill_later(std::size_t number, Duration when) {
  co_await world_.clock().sleep_until(world_.clock().now() + when);
  kill(number);
}

Task<> GridSwarm::live_all() {
  introduce();
  for (auto& peer : peers_) peer->start();
  for (const auto& [number, how_long] : frozen_) freeze(number, how_long);
  for (const auto& [number, when] : dies_)  // another one's task: its own end with it
    passes_[(number + 1) % size()]->spawn("kill", kill_later(number, when));
  for (std::size_t number = 0; number < size(); ++number) passes_[number]->spawn("pass", live(number));
  for (std::size_t number = 0; number < size(); ++number)
    if (hosts_[number]->alive()) co_await passes_[number]->join();
  for (auto& pass : passes_) co_await pass->stop();
  for (auto& peer : peers_) co_await peer->stop();
  network_.stop();
}

Task<> GridSwarm::look_for_group(std::size_t number, averaging::Pass pass, TimePoint from, Meeting& meeting) {
  Clock& clock = hosts_[number]->clock();
  meeting.cell = schedule_->group(peers_[number]->id(), 1).size();
  co_await clock.sleep_until(from);
  meeting.declared = clock.now();
  const auto group = co_await peers_[number]->find_group(std::move(pass));
  if (!group) co_return;
  meeting.begun = clock.now();
  meeting.members = group->roster.size();
  meeting.group = group->id;
}

Task<> GridSwarm::meet_all(std::vector<std::vector<Meeting>>& windows, Duration length) {
  introduce();
  for (auto& peer : peers_) peer->start();
  Random random = Random(options_.seed).derive("declarations");
  for (std::size_t window = 0; window < windows.size(); ++window) {
    windows[window].resize(size());
    const TimePoint begin = world_.clock().now();
    for (std::size_t number = 0; number < size(); ++number) {
      const TimePoint from = begin + Duration(random.below(static_cast<std::uint64_t>(length.count() / 2)));
      averaging::Pass pass = pass_of(options_.seed + window, begin + length);
      passes_[number]->spawn("search", look_for_group(number, std::move(pass), from, windows[window][number]));
    }
    for (auto& pass : passes_) co_await pass->join();
    co_await world_.clock().sleep_until(begin + length);
  }
  for (auto& pass : passes_) co_await pass->stop();
  for (auto& peer : peers_) co_await peer->stop();
  network_.stop();
}

std::vector<std::vector<Meeting>> GridSwarm::meet(std::size_t windows, Duration length) {
  std::vector<std::vector<Meeting>> out(windows);
  world_.run(meet_all(out, length));
  return out;
}

WindowFacts window_facts(const std::vector<Meeting>& meetings) {
  struct Last {
    TimePoint declared{};
    TimePoint begun{};
  };
  std::map<Digest, Last> groups;
  std::size_t full = 0;
  for (const Meeting& one : meetings) {
    if (one.members == 0 || one.members != one.cell) continue;
    ++full;
    Last& last = groups[one.group];
    last.declared = std::max(last.declared, one.declared);
    last.begun = std::max(last.begun, one.begun);
  }
  WindowFacts facts;
  facts.full_share = static_cast<double>(full) / static_cast<double>(std::max<std::size_t>(1, meetings.size()));
  facts.groups = groups.size();
  std::vector<Duration> waits;
  for (const auto& [id, last] : groups) waits.push_back(last.begun - last.declared);
  std::sort(waits.begin(), waits.end());
  if (waits.empty()) return facts;
  facts.begin_after_median = waits[waits.size() / 2];
  facts.begin_after_max = waits.back();
  return facts;
}

void GridSwarm::run() {
  world_.run(live_all());
}

GridResult GridSwarm::result() const {
  std::vector<const GridPeer*> all;
  for (const auto& peer : peers_) all.push_back(peer.get());
  return measure(all);
}

}  // namespace collab::sim
