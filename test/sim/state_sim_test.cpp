// Joiners and donors over simulated links: who lies, dies or stalls costs time, never a wrong byte.
#include "base/file.hpp"
#include "base/frame.hpp"
#include "state/download.hpp"
#include "state/store.hpp"
#include "support/message_network.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::peer;

using Got = boost::system::result<Snapshot, Refusal>;

constexpr std::size_t kParameterBytes = 10 * kChunkBytes + 1000;

/// What every peer holds at the begin of an epoch.
Snapshot state_of(std::uint64_t epoch) {
  Random random(epoch);
  Snapshot snapshot{epoch, {}};
  snapshot.sections.push_back({"parameters", Bytes(kParameterBytes)});
  snapshot.sections.push_back({"optimizer", Bytes(5 * kChunkBytes)});
  snapshot.sections.push_back({"ledger", Bytes(17)});
  for (Section& section : snapshot.sections) {
    for (std::byte& byte : section.bytes) byte = static_cast<std::byte>(random.next());
  }
  return snapshot;
}

Digest parameters_of(const Snapshot& snapshot) {
  return content_hash(snapshot.sections.front().bytes);
}

net::Method method(std::string_view name) {
  net::Method row;
  row.name = name;
  return row;
}

/// 1 MB/s for each pair of peers: a whole state takes 4 s from one donor.
test::LinkOptions links() {
  test::LinkOptions options;
  options.bytes_per_s = 1e6;
  return options;
}

class Swarm {
 public:
  explicit Swarm(std::uint64_t seed, const test::LinkOptions& lines = links())
      : network_(world_, seed, lines), random_(seed) {}

  sim::Simulation& world() { return world_; }
  test::MessageNetwork& network() { return network_; }
  Clock& clock() { return world_.clock(); }
  TimePoint in(Duration duration) { return clock().now() + duration; }

  /// A peer that serves the state of its epoch.
  Store& add_donor(unsigned number, std::uint64_t epoch, StoreOptions options = {}) {
    const auto source = [this](std::uint64_t wanted) -> Task<Result<std::shared_ptr<const Snapshot>>> {
      ++snapshots_taken;
      co_await clock().sleep_until(in(milliseconds(20)));  // the border of a microbatch
      co_return std::make_shared<const Snapshot>(state_of(wanted));
    };
    auto store = std::make_unique<Store>(network_.add_peer(peer(number)), clock(), world_.executor(), world_.executor(),
                                         log_, source, options);
    store->advance(epoch);
    donors_.push_back(peer(number));
    return *stores_.emplace(number, std::move(store)).first->second;
  }
  /// Is named as a donor, but nobody knows where it is.
  void add_stranger(unsigned number) { donors_.push_back(peer(number)); }
  /// Shows the right index and gives wrong bytes.
  void add_liar(unsigned number, std::uint64_t epoch) {
    net::Endpoint& net = network_.add_peer(peer(number));
    const Frame index = wire::show(index_snapshot(state_of(epoch)));
    net.handle(method(wire::kIndexMethod), [index](PeerId, Frame, TimePoint) -> Task<net::Answer> { co_return index; });
    net.handle(method(wire::kChunkMethod), [this](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
      ++lies_told;
      const auto ask = std::get<wire::AskChunk>(frame::decode<wire::Message>(*request)->header);
      const wire::Message answer(wire::Chunk{ask.chunk});
      const Bytes wrong(kChunkBytes, std::byte(1));
      co_return frame::encode(answer, wrong);
    });
    donors_.push_back(peer(number));
  }

  Context context(unsigned number) {
    if (!joiners_.contains(number)) joiners_[number] = &network_.add_peer(peer(number));
    return Context{*joiners_.at(number), clock(), world_.executor(), log_, random_};
  }
  OnProgress watch() {
    return [this](const Progress& now) {
      progress = now;
      if (on_progress) on_progress(now);
    };
  }
  Task<Got> join(unsigned number, WantedState wanted) {
    return download(context(number), std::move(wanted), donors_, watch());
  }
  /// The same by one who gives on what it has.
  Task<boost::system::result<std::shared_ptr<const Snapshot>, Refusal>> join_and_share(unsigned number,
                                                                                       WantedState wanted) {
    const Context with = context(number);
    const auto nothing = [](std::uint64_t) -> Task<Result<std::shared_ptr<const Snapshot>>> { co_return Errc::gone; };
    if (!sharing_.contains(number))
      sharing_[number] =
          std::make_unique<Store>(with.net, clock(), world_.executor(), world_.executor(), log_, nothing);
    return download_and_share(with, *sharing_.at(number), std::move(wanted), donors_, {});
  }
  const std::vector<PeerId>& donors() const { return donors_; }

  /// `scenario()` while every donor serves.
  template <class Scenario>
  void run(Scenario scenario) {
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (auto& [number, store] : stores_) tasks.spawn("store", store->run());
      co_await scenario(tasks);
    };
    world_.run(task_scope(rethrow, body));
  }

  Progress progress;
  OnProgress on_progress;
  std::size_t snapshots_taken = 0;
  std::size_t lies_told = 0;

 private:
  sim::Simulation world_;
  test::MessageNetwork network_;
  Random random_;
  Log log_;
  std::map<unsigned, std::unique_ptr<Store>> stores_;
  std::map<unsigned, net::Endpoint*> joiners_;
  std::map<unsigned, std::unique_ptr<Store>> sharing_;
  std::vector<PeerId> donors_;
};

WantedState wanted(Swarm& swarm, std::uint64_t epoch, Duration patience = seconds(60)) {
  WantedState result;
  result.epoch = epoch;
  result.parameters = parameters_of(state_of(epoch));
  result.deadline = swarm.in(patience);
  return result;
}

bool is_state_of(const Got& got, std::uint64_t epoch) {
  return got && index_snapshot(*got) == index_snapshot(state_of(epoch));
}

}  // namespace

TEST_CASE("sim: a joiner fetches one state from all donors at once, and each takes one snapshot") {
  Swarm swarm(1);
  for (unsigned i = 0; i < 4; ++i) swarm.add_donor(i, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    const TimePoint start = swarm.clock().now();
    const Got got = co_await swarm.join(100, wanted(swarm, 7));
    CHECK(is_state_of(got, 7));
    CHECK(swarm.progress.donors == 4);
    CHECK(swarm.progress.bytes == swarm.progress.bytes_total);
    CHECK(swarm.progress.bytes_per_s > 2.5e6);
    CHECK(to_seconds(swarm.clock().now() - start) < 2.0);  // 4.2 MB over four lines of 1 MB/s
  });
  CHECK(swarm.snapshots_taken == 4);
}

TEST_CASE("sim: one donor at the other end of a long way gives as much as the line carries") {
  test::LinkOptions far;
  far.bytes_per_s = 12.5e6;
  far.latency_min = far.latency_max = milliseconds(40);
  Swarm swarm(1, far);
  swarm.add_donor(0, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    const TimePoint start = swarm.clock().now();
    CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, 7)), 7));
    // 0.1 s for the index and as much for the first chunk; the line carries the state in 0.33 s
    CHECK(to_seconds(swarm.clock().now() - start) < 0.65);
  });
}

TEST_CASE("sim: a donor knows while somebody fetches to take part, and not of who only reads or has long been here") {
  for (const bool takes_part : {true, false}) {
    CAPTURE(takes_part);
    Swarm swarm(1);
    const Store& donor = swarm.add_donor(0, 7);
    swarm.run([&](TaskGroup& tasks) -> Task<> {
      bool done = false;
      const auto fetch = [&]() -> Task<> {
        if (takes_part) CHECK(co_await swarm.join_and_share(100, wanted(swarm, 7)));
        if (!takes_part) CHECK(co_await swarm.join(100, wanted(swarm, 7)));
        done = true;
      };
      CHECK(!donor.somebody_joins());
      tasks.spawn("fetch", fetch());
      co_await swarm.clock().sleep_until(swarm.in(seconds(2)));
      CHECK(!done);
      CHECK(donor.somebody_joins() == takes_part);
      while (!done) co_await swarm.clock().sleep_until(swarm.in(milliseconds(100)));
      CHECK(donor.somebody_joins() == takes_part);  // it is about to
      co_await swarm.clock().sleep_until(swarm.in(milliseconds(3200)));
      CHECK(!donor.somebody_joins());
    });
  }
}

TEST_CASE("sim: donors that lie, die or stall change who gives, never what arrives") {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    CAPTURE(seed);
    Swarm swarm(seed);
    for (unsigned i = 0; i < 3; ++i) swarm.add_donor(i, 7);
    swarm.add_liar(3, 7);
    Random random(seed);
    const TimePoint dies(milliseconds(random.below(1500)));
    const TimePoint stalls(milliseconds(random.below(1500)));
    const auto fault = [&]() -> Task<> {
      co_await swarm.clock().sleep_until(std::min(dies, stalls));
      if (dies < stalls) swarm.network().kill(peer(0));
      if (stalls <= dies) swarm.network().freeze(peer(1));
      co_await swarm.clock().sleep_until(std::max(dies, stalls));
      swarm.network().kill(peer(0));
      swarm.network().freeze(peer(1));
    };
    swarm.run([&](TaskGroup& tasks) -> Task<> {
      tasks.spawn("fault", fault());
      const TimePoint start = swarm.clock().now();
      const Got got = co_await swarm.join(100, wanted(swarm, 7));
      CHECK(is_state_of(got, 7));
      CHECK(to_seconds(swarm.clock().now() - start) < 10);  // one donor alone needs 4.2 s
    });
    CHECK(swarm.lies_told <= 2);  // what was under way when the first lie was seen
    CHECK(swarm.progress.liars == (swarm.lies_told > 0 ? 1 : 0));
  }
}

TEST_CASE("sim: of ten donors nine are at no known address, and the tenth gives the state all the same") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    Swarm swarm(seed);
    swarm.add_donor(0, 7);
    for (unsigned i = 1; i < 10; ++i) swarm.add_stranger(i);
    swarm.run([&](TaskGroup&) -> Task<> {
      const Got got = co_await swarm.join(100, wanted(swarm, 7));
      CHECK(is_state_of(got, 7));
      CHECK(to_seconds(swarm.clock().now().time_since_epoch()) < 6);  // as from one donor
    });
  }
}

TEST_CASE("sim: of ten donors nine are at no known address, and what the tenth says of the epoch counts") {
  Swarm swarm(1);
  swarm.add_donor(0, 12);
  for (unsigned i = 1; i < 10; ++i) swarm.add_stranger(i);
  swarm.run([&](TaskGroup&) -> Task<> {
    const Got got = co_await swarm.join(100, wanted(swarm, 7));
    REQUIRE(got.has_error());
    CHECK(got.error().code == Errc::stale);
    CHECK(got.error().number == 12);
  });
}

TEST_CASE("sim: one donor that says an epoch is over is not believed against those who have not reached its end") {
  Swarm swarm(1);
  std::vector<PeerId> donors;
  for (unsigned i = 0; i < 4; ++i) {
    swarm.add_donor(i, 7);
    donors.push_back(peer(i));
  }
  const auto lie = [](PeerId, Frame, TimePoint) -> Task<net::Answer> {
    co_return Refusal(Errc::stale, "that epoch is over", 100);
  };
  swarm.network().add_peer(peer(4)).handle(method(wire::kIndexMethod), lie);
  donors.push_back(peer(4));
  swarm.run([&](TaskGroup&) -> Task<> {
    WantedResult next;
    next.epoch = 7;
    next.deadline = swarm.in(seconds(10));
    next.check = [](std::span<const std::byte>) { return true; };
    auto fetching = download_result(swarm.context(100), next, donors);
    const auto got = co_await std::move(fetching);
    REQUIRE(got.has_error());
    CHECK(got.error().code == Errc::late);
  });
}

TEST_CASE("sim: the index of most donors counts, and one without the voted parameters never does") {
  Swarm swarm(5);
  swarm.add_donor(0, 7);
  const auto show = [&](unsigned number, Snapshot snapshot) {
    const Frame index = wire::show(index_snapshot(snapshot));
    swarm.network()
        .add_peer(peer(number))
        .handle(method(wire::kIndexMethod),
                [index](PeerId, Frame, TimePoint) -> Task<net::Answer> { co_return index; });
  };
  Snapshot other = state_of(8);  // most donors, but not the parameters of the signed records
  other.epoch = 7;
  for (unsigned i = 1; i < 4; ++i) show(i, other);
  std::vector<PeerId> donors = {peer(0), peer(1), peer(2), peer(3)};
  swarm.run([&](TaskGroup&) -> Task<> {
    auto first = download(swarm.context(100), wanted(swarm, 7), donors, swarm.watch());
    CHECK(is_state_of(co_await std::move(first), 7));
    donors.erase(donors.begin());
    auto second = download(swarm.context(100), wanted(swarm, 7), donors, swarm.watch());
    const Got refused = co_await std::move(second);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code == Errc::bad_request);
  });
}

TEST_CASE("sim: while epochs move on, a late joiner is told the epoch and one that asks ahead is served") {
  Swarm swarm(6);
  std::vector<Store*> stores;
  for (unsigned i = 0; i < 4; ++i) stores.push_back(&swarm.add_donor(i, 10));
  const auto train = [&]() -> Task<> {
    for (std::uint64_t epoch = 11;; ++epoch) {
      co_await swarm.clock().sleep_until(swarm.in(milliseconds(300)));
      for (Store* store : stores) store->advance(epoch);
    }
  };
  swarm.run([&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("train", train());
    co_await swarm.clock().sleep_until(swarm.in(seconds(1)));
    const Got late = co_await swarm.join(100, wanted(swarm, 10));
    REQUIRE(late.has_error());
    CHECK(late.error().code == Errc::stale);
    CHECK(late.error().number >= 13);
    const std::uint64_t next = late.error().number + 2;
    CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, next)), next));  // takes many epochs: served from a copy
    CHECK(stores[0]->epoch() > next + 2);
  });
  CHECK(swarm.snapshots_taken == 4);
  for (const Store* store : stores) CHECK(store->snapshots_kept() == 1);
}

TEST_CASE("sim: an epoch that nobody reaches ends with late, at the time the joiner gave") {
  Swarm swarm(7);
  swarm.add_donor(0, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    WantedState ahead = wanted(swarm, 9);
    ahead.wait = seconds(3);
    const TimePoint start = swarm.clock().now();
    const Got got = co_await swarm.join(100, std::move(ahead));
    REQUIRE(got.has_error());
    CHECK(got.error().code == Errc::late);
    CHECK(got.error().number == 7);
    CHECK(to_seconds(swarm.clock().now() - start) == doctest::Approx(3.0).epsilon(0.1));
  });
  CHECK(swarm.snapshots_taken == 0);
}

TEST_CASE("sim: who asks for an epoch that is over gets the state of those who go no further, before they are gone") {
  const auto ask = [](std::uint64_t last, double seconds_max) {
    Swarm swarm(7);
    for (unsigned i = 0; i < 3; ++i) swarm.add_donor(i, 9);
    swarm.run([&](TaskGroup&) -> Task<> {
      const TimePoint start = swarm.clock().now();
      Got got = co_await swarm.join(100, wanted(swarm, 7));
      std::uint64_t asked = 7;
      EpochInstead epochs;
      while (!got) {
        const auto instead = epochs.after(got.error(), asked, last);
        REQUIRE(instead.has_value());
        asked = *instead;
        got = co_await swarm.join(100, wanted(swarm, asked));
      }
      CHECK(is_state_of(got, 9));
      CHECK(to_seconds(swarm.clock().now() - start) < seconds_max);
    });
  };
  SUBCASE("the run is over") {
    ask(9, 3);
  }
  SUBCASE("they leave in the middle of it") {
    ask(1000, 7);
  }
}

TEST_CASE("a refusal names the donors' epoch, and the one after it when epochs are over before they are asked for") {
  const auto after = [](Errc why, std::uint64_t theirs, std::uint64_t asked) {
    return EpochInstead().after(Refusal(why, "", theirs), asked, 1000);
  };
  CHECK(after(Errc::stale, 8, 7) == 8);
  CHECK(after(Errc::stale, 9, 7) == 10);
  CHECK(after(Errc::stale, 7, 7) == 7);
  CHECK(after(Errc::late, 9, 10) == 9);
  CHECK_FALSE(after(Errc::stale, 5, 7).has_value());
  CHECK_FALSE(after(Errc::late, 0, 7).has_value());
  CHECK_FALSE(after(Errc::gone, 9, 7).has_value());
  EpochInstead epochs;
  CHECK(epochs.after(Refusal(Errc::late, "", 6), 7, 20) == 6);
  CHECK(epochs.after(Refusal(Errc::stale, "", 7), 6, 20) == 7);  // of one that was too early nothing follows
  CHECK(epochs.after(Refusal(Errc::stale, "", 8), 7, 20) == 9);
  CHECK(epochs.after(Refusal(Errc::stale, "", 10), 9, 20) == 11);
  CHECK(epochs.after(Refusal(Errc::stale, "", 14), 12, 20) == 15);
  CHECK(epochs.after(Refusal(Errc::stale, "", 20), 15, 20) == 20);
}

TEST_CASE("sim: six joiners share donors that serve four at a time") {
  Swarm swarm(8);
  for (unsigned i = 0; i < 2; ++i) swarm.add_donor(i, 7);
  std::size_t served = 0;
  const auto joiner = [&](unsigned number) -> Task<> {
    const Got got = co_await swarm.join(number, wanted(swarm, 7, seconds(120)));
    CHECK(is_state_of(got, 7));
    ++served;
  };
  swarm.run([&](TaskGroup& tasks) -> Task<> {
    for (unsigned i = 0; i < 6; ++i) tasks.spawn("joiner", joiner(100 + i));
    while (served < 6) co_await swarm.clock().sleep_until(swarm.in(milliseconds(100)));
    CHECK(to_seconds(swarm.clock().now().time_since_epoch()) < 20);
  });
  CHECK(swarm.snapshots_taken == 2);
}

TEST_CASE("sim: when all donors die, joiners go on with what they have together, or are told at once that it is gone") {
  std::map<bool, int> fates;
  for (const std::uint64_t seed : test::seeds(3)) {
    for (const Duration dies_after : {milliseconds(400), milliseconds(1800)}) {
      CAPTURE(seed);
      Swarm swarm(seed);
      for (unsigned i = 0; i < 2; ++i) swarm.add_donor(i, 7);
      std::set<bool> whole;
      std::size_t ended = 0;
      const auto joiner = [&](unsigned number) -> Task<> {
        const auto got = co_await swarm.join_and_share(number, wanted(swarm, 7));
        whole.insert(got.has_value());
        if (!got) CHECK(got.error().code == Errc::gone);
        ++ended;
      };
      swarm.run([&](TaskGroup& tasks) -> Task<> {
        for (unsigned i = 0; i < 4; ++i) tasks.spawn("joiner", joiner(100 + i));
        co_await swarm.clock().sleep_until(swarm.in(dies_after));
        for (unsigned i = 0; i < 2; ++i) swarm.network().kill(peer(i));
        while (ended < 4) co_await swarm.clock().sleep_until(swarm.in(milliseconds(100)));
        CHECK(to_seconds(swarm.clock().now().time_since_epoch()) < 30);
      });
      CHECK(whole.size() == 1);
      ++fates[*whole.begin()];
    }
  }
  CHECK(fates[true] > 0);
  CHECK(fates[false] > 0);
}

TEST_CASE("sim: a donor keeps two large snapshots, drops the older one, and both when nobody fetches") {
  Swarm swarm(9);
  StoreOptions options;
  options.snapshot_bytes_max = 0;  // every one is large
  Store& store = swarm.add_donor(0, 1, options);
  swarm.run([&](TaskGroup&) -> Task<> {
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
      store.advance(epoch);
      CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, epoch)), epoch));
      CHECK(store.snapshots_kept() == std::min<std::uint64_t>(epoch, 2));
      co_await swarm.clock().sleep_until(swarm.in(seconds(6)));
    }
    const Got old = co_await swarm.join(100, wanted(swarm, 1));
    REQUIRE(old.has_error());
    CHECK(old.error().code == Errc::stale);
    CHECK(old.error().number == 3);
    co_await swarm.clock().sleep_until(swarm.in(seconds(40)));
    CHECK(store.snapshots_kept() == 0);
  });
}

TEST_CASE("sim: a donor keeps as many small snapshots as are fetched") {
  Swarm swarm(9);
  Store& store = swarm.add_donor(0, 1);  // 4.2 MB each
  swarm.run([&](TaskGroup&) -> Task<> {
    for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
      store.advance(epoch);
      CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, epoch)), epoch));
      CHECK(store.snapshots_kept() == epoch);
    }
    CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, 2)), 2));
    co_await swarm.clock().sleep_until(swarm.in(seconds(40)));
    CHECK(store.snapshots_kept() == 0);
  });
}

TEST_CASE("sim: a donor whose line breaks while it is asked is asked once more") {
  Swarm swarm(14);
  swarm.add_donor(0, 7);
  swarm.run([&](TaskGroup& tasks) -> Task<> {
    const auto come_back = [&swarm]() -> Task<> {
      const std::string index(wire::kIndexMethod);
      while (swarm.network().calls_of(peer(0), index) < 2)
        co_await swarm.clock().sleep_until(swarm.clock().now() + milliseconds(1));
      swarm.network().revive(peer(0));
    };
    swarm.network().kill(peer(0));
    tasks.spawn("back", come_back());
    const Got got = co_await swarm.join(100, wanted(swarm, 7));
    CHECK(is_state_of(got, 7));
  });
}

TEST_CASE("sim: a donor whose line is back after a while is asked again, while another one says nothing") {
  Swarm swarm(14);
  for (unsigned i = 0; i < 2; ++i) swarm.add_donor(i, 7);
  swarm.run([&](TaskGroup& tasks) -> Task<> {
    const auto come_back = [&swarm]() -> Task<> {
      co_await swarm.clock().sleep_until(swarm.in(milliseconds(700)));
      swarm.network().revive(peer(0));
    };
    swarm.network().kill(peer(0));
    swarm.network().freeze(peer(1));
    tasks.spawn("back", come_back());
    const TimePoint begun = swarm.clock().now();
    CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, 7)), 7));
    CHECK(to_seconds(swarm.clock().now() - begun) < 8);  // of which the bytes take four
  });
}

TEST_CASE("sim: a download that was cut off goes on where it was") {
  const test::TempFolder folder;
  Swarm swarm(10);
  for (unsigned i = 0; i < 2; ++i) swarm.add_donor(i, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    WantedState first = wanted(swarm, 7, milliseconds(1500));
    first.folder = folder.path();
    const Got cut = co_await swarm.join(100, std::move(first));
    REQUIRE(cut.has_error());
    CHECK(cut.error().code == Errc::late);
    const std::uint64_t had = swarm.progress.bytes;
    CHECK(had > 4 * kChunkBytes);
    std::optional<std::uint64_t> resumed;
    swarm.on_progress = [&](const Progress& now) {
      if (!resumed) resumed = now.bytes;
    };
    WantedState second = wanted(swarm, 7);
    second.folder = folder.path();
    CHECK(is_state_of(co_await swarm.join(100, std::move(second)), 7));
    REQUIRE(resumed);
    CHECK(*resumed == had);
  });
}

TEST_CASE("sim: of a state that we hold but for a byte only the differing chunk is fetched, or none") {
  Swarm swarm(14);
  for (unsigned i = 0; i < 4; ++i) swarm.add_donor(i, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    auto ours = std::make_shared<Snapshot>(state_of(7));
    ours->sections[1].bytes[kChunkBytes] ^= std::byte(1);
    WantedState most = wanted(swarm, 7);
    most.have = ours;
    std::size_t chunks = 0;
    swarm.on_progress = [&](const Progress& now) { chunks += now.donors; };
    CHECK(is_state_of(co_await swarm.join(100, std::move(most)), 7));
    CHECK(chunks == 1);
    WantedState all = wanted(swarm, 7);
    all.have = std::make_shared<const Snapshot>(state_of(7));
    CHECK(is_state_of(co_await swarm.join(100, std::move(all)), 7));
    CHECK(chunks == 1);
  });
}

TEST_CASE(
    "sim: results of the last rounds are fetched, and bytes that fail the check are replaced by another donor's") {
  Swarm swarm(11);
  std::vector<Store*> stores;
  for (unsigned i = 0; i < 3; ++i) stores.push_back(&swarm.add_donor(i, 8));
  const Bytes right(3 * kChunkBytes + 5, std::byte(7));
  const Bytes wrong(3 * kChunkBytes + 5, std::byte(8));
  const auto kept = [](const Bytes& bytes) { return KeptResult{bytes.size(), [bytes] { return bytes; }}; };
  stores[0]->keep_result(7, kept(right));
  stores[1]->keep_result(7, kept(wrong));
  stores[2]->keep_result(7, kept(wrong));
  swarm.run([&](TaskGroup&) -> Task<> {
    WantedResult one;
    one.epoch = 7;
    one.deadline = swarm.in(seconds(30));
    one.check = [](std::span<const std::byte> bytes) { return bytes.front() == std::byte(7); };
    auto first = download_result(swarm.context(100), one, swarm.donors());
    const auto got = co_await std::move(first);
    REQUIRE(got.has_value());
    CHECK(got->bytes == right);
    CHECK(got->silent.empty());
    one.epoch = 5;
    auto second = download_result(swarm.context(100), one, swarm.donors());
    const auto old = co_await std::move(second);
    REQUIRE(old.has_error());
    CHECK(old.error().code == Errc::stale);
    CHECK(old.error().number == 8);
  });
}

TEST_CASE("sim: what a first group committed comes from who commits it late, by its id, until the epoch is over") {
  Swarm swarm(12);
  std::vector<Store*> stores;
  for (unsigned i = 0; i < 2; ++i) stores.push_back(&swarm.add_donor(i, 7));
  const Bytes committed(2 * kChunkBytes, std::byte(7));
  const auto kept = [](const Bytes& bytes) { return KeptResult{bytes.size(), [bytes] { return bytes; }}; };
  const Digest group = content_hash(Bytes(1));
  const Digest another = content_hash(Bytes(2));
  stores[0]->keep_first_group(7, another, kept(Bytes(5)));
  swarm.run([&](TaskGroup& tasks) -> Task<> {
    const auto commit = [&]() -> Task<> {
      co_await swarm.clock().sleep_until(swarm.in(seconds(2)));
      stores[1]->keep_first_group(7, group, kept(committed));
    };
    tasks.spawn("commit", commit());
    WantedResult one;
    one.epoch = 7;
    one.first_group = group;
    one.wait = seconds(5);
    one.deadline = swarm.in(seconds(30));
    const TimePoint start = swarm.clock().now();
    auto first = download_result(swarm.context(100), one, swarm.donors());
    const auto got = co_await std::move(first);
    REQUIRE(got.has_value());
    CHECK(got->bytes == committed);
    CHECK(swarm.clock().now() - start > seconds(2));
    CHECK(swarm.clock().now() - start < seconds(4));

    one.first_group.reset();  // it is not what the epoch ended with
    one.wait = Duration();
    auto second = download_result(swarm.context(100), one, swarm.donors());
    const auto result = co_await std::move(second);
    REQUIRE(result.has_error());
    CHECK(result.error().code == Errc::late);

    for (Store* store : stores) store->advance(8);
    one.first_group = group;
    auto third = download_result(swarm.context(100), one, swarm.donors());
    const auto over = co_await std::move(third);
    REQUIRE(over.has_error());
    CHECK(over.error().code == Errc::stale);
    stores[1]->keep_first_group(7, group, kept(committed));  // too late as well
    auto fourth = download_result(swarm.context(100), one, swarm.donors());
    CHECK((co_await std::move(fourth)).has_error());
  });
}

TEST_CASE("sim: a file of the run comes by its hash and appears whole") {
  const test::TempFolder folder;
  const Bytes text(7 * kChunkBytes + 3, std::byte(42));
  write_file(folder.path() / "prepared", text);
  Swarm swarm(12);
  std::vector<Store*> stores;
  for (unsigned i = 0; i < 3; ++i) stores.push_back(&swarm.add_donor(i, 1));
  swarm.run([&](TaskGroup&) -> Task<> {
    for (Store* store : stores) CHECK((co_await store->add_file(content_hash(text), folder.path() / "prepared")));
    WantedFile file;
    file.name = content_hash(text);
    file.target = folder.path() / "fetched";
    file.deadline = swarm.in(seconds(30));
    auto first = download_file(swarm.context(100), file, swarm.donors(), swarm.watch());
    const auto done = co_await std::move(first);
    CHECK(done.has_value());
    CHECK(read_file(file.target, 1U << 30U) == text);
    CHECK(swarm.progress.donors == 3);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "fetched.parts"));

    file.target = folder.path() / "refused";  // a check of the whole says no to every donor's bytes
    file.check = [](const std::filesystem::path&) { return false; };
    auto second = download_file(swarm.context(100), file, swarm.donors(), swarm.watch());
    const auto refused = co_await std::move(second);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code == Errc::bad_request);
    CHECK_FALSE(std::filesystem::exists(file.target));

    file.name = Digest();
    auto third = download_file(swarm.context(100), file, swarm.donors(), swarm.watch());
    const auto unknown = co_await std::move(third);
    REQUIRE(unknown.has_error());
    CHECK(unknown.error().code == Errc::gone);
  });
}

TEST_CASE("sim: same seed, same way of a download") {
  const auto way = [](std::uint64_t seed) {
    std::vector<std::pair<std::int64_t, std::uint64_t>> steps;
    Swarm swarm(seed);
    for (unsigned i = 0; i < 4; ++i) swarm.add_donor(i, 7);
    swarm.add_liar(4, 7);
    swarm.on_progress = [&](const Progress& now) {
      steps.emplace_back(swarm.clock().now().time_since_epoch().count(), now.bytes);
    };
    swarm.run([&](TaskGroup&) -> Task<> { CHECK(is_state_of(co_await swarm.join(100, wanted(swarm, 7)), 7)); });
    return steps;
  };
  CHECK(way(3) == way(3));
  CHECK(way(3) != way(4));
}

TEST_CASE("store: bytes that no correct peer sends are refused") {
  Swarm swarm(13);
  swarm.add_donor(0, 7);
  swarm.run([&](TaskGroup&) -> Task<> {
    const Context context = swarm.context(100);
    wire::AskIndex ask;
    ask.kind = 4;
    std::vector<std::pair<std::string_view, Frame>> bad;
    bad.emplace_back(wire::kIndexMethod, frame::encode(wire::Message(ask)));
    bad.emplace_back(wire::kIndexMethod, frame::encode(wire::Message(wire::Chunk{})));
    bad.emplace_back(wire::kIndexMethod, std::make_shared<const Buffer>(Bytes(3)));
    bad.emplace_back(wire::kChunkMethod, frame::encode(wire::Message(wire::AskIndex{})));
    for (const auto& [method, request] : bad) {
      auto call = context.net.call(peer(0), method, request, swarm.in(seconds(5)));
      const net::Answer answer = co_await std::move(call);
      REQUIRE(answer.has_error());
      CHECK(answer.error().code == Errc::bad_request);
    }
  });
}

}  // namespace collab::state
