// The production object averaging::Commit in a world of random delays on ordered channels, crashes in the middle of
// broadcasts, false suspicion and partitions. Results are symbols: other senders or another view, other digest.
//
// It proves that the code commits no two results; the data exchange around it is a sketch here. That the protocol does
// not, with the voices of previous groups, their stand-ins, units of work, signatures and restarts, is proved apart
// from the code by test/oracle/commit_model.py, which also leaves each rule out to see what it is for.

#include "averaging/commit.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

enum class Mode { crash, suspicion, partition, both };

Digest symbol(std::uint32_t view, std::size_t index, Ranks senders) {
  return Hasher("symbol").add(view).add(index).add(senders).finish();
}

Signature stamp(Rank rank, std::uint32_t view, const wire::Manifest& manifest) {
  Signature signature{};
  signature[0] = rank;
  signature[1] = static_cast<unsigned char>(view);
  signature[2] = manifest.at(0)[0];
  return signature;
}

struct Reduced {
  std::size_t index = 0;
  std::uint32_t view = 0;
  Digest digest{};
};
struct PartOf {
  std::uint32_t view = 0;
  std::size_t index = 0;
};
using Item = std::variant<PartOf, Reduced, wire::Header>;

class World {
 public:
  World(std::uint64_t seed, std::size_t n, Mode mode, bool with_quorum);
  void run();
  bool dead(std::size_t rank) const { return dead_.contains(rank); }
  const Commit& commit(std::size_t rank) const { return *peers_[rank].commit; }
  const Members& members() const { return members_; }
  double now() const { return now_; }

 private:
  struct Peer {
    std::unique_ptr<Commit> commit;
    Ranks suspected = 0;
    bool started = false;
    std::uint32_t scattered = ~0U;                                 // view whose parts were sent
    std::map<std::pair<std::uint32_t, std::size_t>, Ranks> parts;  // (view, index) -> senders
    std::set<std::pair<std::uint32_t, std::size_t>> closed;
    std::vector<Reduced> held;
    std::set<std::pair<std::uint32_t, std::size_t>> fetched;
    std::vector<std::pair<std::size_t, Digest>> waiting;  // fetches of what is still on its way to us
  };
  struct Event {
    enum class Kind { kill, suspect, trust, start, message } kind;
    std::size_t a = 0, b = 0;
    Item item{};
  };

  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_.next() >> 11U) * 0x1p-53;
  }
  double exponential(double rate) { return -std::log(1 - uniform(0, 1)) / rate; }
  std::vector<std::size_t> sample(std::size_t from, std::size_t count);
  void at(double when, Event event) { events_.emplace(std::pair(when, ++sequence_), std::move(event)); }
  void send(std::size_t from, std::size_t to, Item item);
  void draw_members(std::size_t n);
  void draw_faults(Mode mode);
  void handle(Event& event);
  void receive(std::size_t from, std::size_t to, Item& item);
  void step(std::size_t rank);
  void have(std::size_t rank, const Reduced& result);

  Random random_;
  std::size_t n_;
  Members members_;
  Guard guard_;
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  std::map<std::pair<double, std::uint64_t>, Event> events_;
  std::vector<Peer> peers_;
  std::set<std::size_t> dead_;
  std::map<std::tuple<std::size_t, std::size_t, bool>, double> last_;
  std::map<std::pair<std::size_t, std::size_t>, double> cut_;
  double cut_from_ = -1, cut_to_ = -1;
  std::set<std::size_t> side_;
};

std::vector<std::size_t> World::sample(std::size_t from, std::size_t count) {
  std::vector<std::size_t> all(from);
  std::iota(all.begin(), all.end(), std::size_t(0));
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + random_.below(from - i)]);
  all.resize(count);
  return all;
}

void World::draw_members(std::size_t n) {
  const std::size_t least = std::max<std::size_t>(1, n / 2);
  members_.size = n;
  for (const std::size_t rank : sample(n, least + random_.below(n - least + 1))) members_.reachable |= bit(rank);
  members_.all = n == 64 ? ~Ranks(0) : bit(n) - 1;
  Ranks auxiliary = 0;
  for (std::size_t rank = 0; rank < n; ++rank)
    if (n > 2 && contains(members_.reachable, rank) && random_.chance(.15)) auxiliary |= bit(rank);
  if (count(auxiliary) > n - 2) auxiliary = 0;
  members_.voters = members_.all & ~auxiliary;
  for (std::size_t rank = 0; rank < n; ++rank)
    if (contains(members_.reachable, rank)) members_.segments.push_back(static_cast<Rank>(rank));
}

World::World(std::uint64_t seed, std::size_t n, Mode mode, bool with_quorum) : random_(seed), n_(n) {
  draw_members(n);
  members_.electorate = with_quorum ? count(members_.voters) : 0;
  peers_.resize(n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    const auto self = static_cast<Rank>(rank);
    Seals seals;
    seals.sign = [self](std::uint32_t view, const wire::Manifest& manifest) { return stamp(self, view, manifest); };
    seals.verify = [](Rank by, std::uint32_t view, const wire::Manifest& manifest, const Signature& signature) {
      return signature == stamp(by, view, manifest);
    };
    peers_[rank].commit = std::make_unique<Commit>(Digest{}, members_, self, 0, std::move(seals), guard_);
  }
  draw_faults(mode);
  for (std::size_t rank = 0; rank < n; ++rank) at(uniform(0, .1), {Event::Kind::start, rank});
}

void World::draw_faults(Mode mode) {
  if (mode == Mode::crash || mode == Mode::both)
    for (const std::size_t victim : sample(n_, std::min<std::size_t>(n_ - 1, random_.below(4))))
      at(uniform(0, 1.6), {Event::Kind::kill, victim});
  if (mode == Mode::suspicion || mode == Mode::both) {
    for (std::uint64_t i = 1 + random_.below(8); i > 0; --i) {
      const auto pair = sample(n_, 2);
      const double when = uniform(0, 1.5);
      at(when, {Event::Kind::suspect, pair[0], pair[1]});
      at(when + uniform(.05, 2), {Event::Kind::trust, pair[0], pair[1]});
    }
  }
  if (mode == Mode::partition || (mode == Mode::both && random_.chance(.5))) {
    const auto side = sample(n_, 1 + random_.below(n_ - 1));
    side_.insert(side.begin(), side.end());
    cut_from_ = uniform(0, 1.2);
    cut_to_ = cut_from_ + uniform(.2, 3);
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = 0; b < n_; ++b) {
        if (side_.contains(a) == side_.contains(b)) continue;
        at(cut_from_ + uniform(.1, .5), {Event::Kind::suspect, a, b});
        at(cut_to_ + uniform(0, .2), {Event::Kind::trust, a, b});
      }
    }
  }
}

void World::send(std::size_t from, std::size_t to, Item item) {
  if (dead(from)) return;
  if (from == to) return at(now_, {Event::Kind::message, from, to, std::move(item)});
  REQUIRE(contains(members_.linked(from), to));
  double when = now_ + .005 + exponential(20);
  if (cut_from_ <= now_ && now_ < cut_to_ && side_.contains(from) != side_.contains(to))
    when = cut_to_ + uniform(0, .2);
  // as on the wire: control and bulk are each in order, not with each other
  double& last = last_[{from, to, std::holds_alternative<wire::Header>(item)}];
  last = when = std::max(when, last + 1e-6);
  at(when, {Event::Kind::message, from, to, std::move(item)});
}

void World::run() {
  while (!events_.empty()) {
    const auto first = events_.begin();
    now_ = first->first.first;
    if (now_ > 60) return;
    Event event = std::move(first->second);
    events_.erase(first);
    handle(event);
  }
}

void World::handle(Event& event) {
  if (event.kind == Event::Kind::kill) {
    dead_.insert(event.a);
    for (std::size_t b = 0; b < n_; ++b) {
      cut_[{event.a, b}] = now_ + (random_.chance(.5) ? 0 : exponential(30));  // each channel keeps a prefix
      if (b != event.a) at(now_ + uniform(.01, .6), {Event::Kind::suspect, b, event.a});
    }
    return;
  }
  if (event.kind == Event::Kind::message) {
    const bool lost = dead(event.a) && now_ > cut_.at({event.a, event.b});
    if (!dead(event.b) && !lost) receive(event.a, event.b, event.item);
    return;
  }
  if (dead(event.a)) return;
  Peer& peer = peers_[event.a];
  if (event.kind == Event::Kind::start) {
    peer.started = true;
    peer.commit->start();
  } else if (event.kind == Event::Kind::suspect) {
    peer.suspected |= bit(event.b);
  } else if (!dead(event.b)) {
    peer.suspected &= ~bit(event.b);
  }
  peer.commit->suspect(peer.suspected);
  step(event.a);
}

void World::receive(std::size_t from, std::size_t to, Item& item) {
  Peer& peer = peers_[to];
  if (const auto* part = std::get_if<PartOf>(&item)) {
    peer.parts[{part->view, part->index}] |= bit(from);
  } else if (const auto* result = std::get_if<Reduced>(&item)) {
    have(to, *result);
  } else {
    const auto deliver = [&](const auto& message) {
      using M = std::decay_t<decltype(message)>;
      if constexpr (std::is_same_v<M, wire::Fetch>) {
        for (const Reduced& held : peer.held)
          if (held.digest == message.digest) return send(to, from, held);
        peer.waiting.emplace_back(from, message.digest.value());
      } else if constexpr (requires { peer.commit->on(Rank(0), message); }) {
        (void)peer.commit->on(static_cast<Rank>(from), message);
      }
    };
    std::visit(deliver, std::get<wire::Header>(item));
  }
  step(to);
}

void World::have(std::size_t rank, const Reduced& result) {
  auto& held = peers_[rank].held;
  for (const Reduced& other : held)
    if (other.digest == result.digest) return;
  held.push_back(result);
  for (const auto& [who, digest] : peers_[rank].waiting)
    if (digest == result.digest) send(rank, who, result);
  peers_[rank].commit->hold(result.index, result.view, result.digest, 1);
}

/// The data exchange around the commit, in symbols.
void World::step(std::size_t rank) {
  Peer& peer = peers_[rank];
  Commit& commit = *peer.commit;
  if (!peer.started) return;
  const bool running = commit.state() == Commit::State::running;
  if (running && commit.acting()) {
    const std::uint32_t view = commit.plan_view();
    if (std::exchange(peer.scattered, view) != view) {
      for (std::size_t index = 0; index < commit.plan().size(); ++index) {
        const auto& assignment = commit.plan()[index];
        if (!assignment.adopted && contains(members_.voters, rank)) send(rank, assignment.owner, PartOf{view, index});
      }
    }
    for (std::size_t index = 0; index < commit.plan().size(); ++index) {
      const auto& assignment = commit.plan()[index];
      const bool here = std::any_of(peer.held.begin(), peer.held.end(),
                                    [&](const Reduced& held) { return held.digest == assignment.adopted; });
      const bool wanted = contains(members_.voters, rank) || assignment.owner == rank;
      if (assignment.adopted && !here && wanted && peer.fetched.insert({view, index}).second) {
        wire::Fetch fetch;
        fetch.digest = assignment.adopted;
        send(rank, commit.source(index), wire::Header(fetch));
      }
      const Ranks have_parts = peer.parts[{view, index}];
      const bool complete = (members_.voters & ~have_parts & ~peer.suspected & ~bit(rank)) == 0 &&
                            (!contains(members_.voters, rank) || contains(have_parts, rank));
      if (assignment.owner != rank || assignment.adopted || have_parts == 0 || !complete) continue;
      if (!peer.closed.insert({view, index}).second) continue;
      const Reduced result{index, view, symbol(view, index, have_parts)};
      for (const std::size_t to : sample(n_, n_))
        if (contains(members_.linked(rank) & members_.voters, to)) send(rank, to, result);
      have(rank, result);
      if (commit.plan_view() != view || !commit.acting()) break;
    }
  }
  for (auto& message : commit.take_messages())
    for (const std::size_t to : sample(n_, n_))
      if (contains(message.to, to)) send(rank, to, message.header);
  if (running && commit.state() == Commit::State::running && commit.acting() && peer.scattered != commit.plan_view())
    step(rank);  // a plan of our own making: its parts go out at once
}

struct Tally {
  std::uint32_t runs = 0, conflicts = 0, all_committed = 0, none_committed = 0, live_quorum_failed = 0;
  StepCounts steps{};
};

Tally check(Mode mode, std::uint64_t runs, bool with_quorum) {
  Tally tally;
  for (const std::uint64_t seed : test::seeds(runs)) {
    const std::array<std::size_t, 6> sizes = {2, 3, 4, 5, 6, 8};
    World world(seed, sizes[Random(seed * 7 + 1).below(sizes.size())], mode, with_quorum);
    world.run();
    std::set<wire::Manifest> committed;
    bool all = true;
    Ranks alive = 0;
    for (std::size_t rank = 0; rank < world.members().size; ++rank) {
      const Commit& commit = world.commit(rank);
      for (std::size_t i = 0; i < tally.steps.size(); ++i) tally.steps[i] += commit.steps()[i];
      if (commit.state() == Commit::State::committed) committed.insert(commit.proof().manifest);
      if (world.dead(rank) || !contains(world.members().voters, rank)) continue;
      alive |= bit(rank);
      all = all && commit.state() == Commit::State::committed;
    }
    bool reachable_alive = false;
    for (std::size_t rank = 0; rank < world.members().size; ++rank)
      reachable_alive = reachable_alive || (contains(world.members().reachable, rank) && !world.dead(rank));
    ++tally.runs;
    tally.conflicts += committed.size() > 1;
    tally.all_committed += all;
    tally.none_committed += committed.empty();
    const bool must = mode == Mode::crash && world.members().is_quorum(alive) && reachable_alive;
    if (with_quorum) CHECK_MESSAGE(committed.size() <= 1, "two results, seed ", seed);
    if (with_quorum && must) CHECK_MESSAGE(all, "a live quorum did not commit, seed ", seed);
    tally.live_quorum_failed += must && !all;
  }
  return tally;
}

}  // namespace

TEST_CASE("commit: under crash, false suspicion and partition no two peers commit different results") {
  StepCounts steps{};
  for (const Mode mode : {Mode::crash, Mode::suspicion, Mode::partition, Mode::both}) {
    const Tally tally = check(mode, 2000, true);
    CHECK(tally.conflicts == 0);
    CHECK(tally.all_committed > tally.runs / 2);  // otherwise the test would be about failing
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] += tally.steps[i];
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    const auto is = [i](Step step) { return i == static_cast<std::size_t>(step); };
    // all weigh 1 here, and nobody lies: commit_test.cpp
    CHECK((steps[i] > 0 || is(Step::give_up_weight) || is(Step::decide_disputed)));
  }
}

TEST_CASE("commit: the model finds the two results of a protocol without quorum") {
  const Tally tally = check(Mode::partition, 500, false);
  CHECK(tally.conflicts > 10);
}

}  // namespace collab::averaging
