// Who serves, from what has changed: the same as from all of it.

#include "directory/server_set.hpp"

#include "base/random.hpp"
#include "unit/directory/records.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

constexpr unsigned char kNodes = 12;

Identity node(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

/// Nodes that come, renew, restart, change what they can, withdraw, and fall silent.
class Members {
 public:
  Members(std::uint64_t seed, Storage& storage) : random_(seed), storage_(storage) {}

  /// One of them does something at `now_ms`.
  void act(std::int64_t now_ms) {
    const auto number = static_cast<unsigned char>(random_.below(kNodes));
    std::uint64_t& sequence = sequences_.at(number);
    const bool starts = sequence == 0 || random_.chance(0.2);
    sequence = std::max(sequence + 1, starts ? static_cast<std::uint64_t>(now_ms) : 0);
    if (starts) incarnations_.at(number) = sequence;
    Record draft;
    draft.key = std::string(kPeerKey);
    draft.sequence = sequence;
    // a renewal lasts longer than what it renews: readers need not see it
    std::int64_t& expires_ms = expiries_.at(number);
    expires_ms = std::max(expires_ms, now_ms + 500 + static_cast<std::int64_t>(random_.below(15'000)));
    draft.expires_ms = expires_ms;
    if (!random_.chance(0.15)) draft.value = *encode(says(number));
    storage_.offer(sign_record(node(number), "bengali", std::move(draft)), now_ms, Storage::Source::read);
  }
  /// Mostly forward.
  std::int64_t next(std::int64_t now_ms) {
    const auto step = static_cast<std::int64_t>(random_.below(1500));
    return random_.chance(0.05) ? now_ms - step : now_ms + step;
  }

 private:
  PeerRecord says(unsigned char number) {
    PeerRecord peer;
    peer.incarnation = incarnations_.at(number);  // by which readers see that it started anew
    peer.reachable = random_.chance(0.7);
    peer.directory = random_.chance(0.3);
    return peer;
  }

  Random random_;
  Storage& storage_;
  std::array<std::uint64_t, kNodes> sequences_{};
  std::array<std::uint64_t, kNodes> incarnations_{};
  std::array<std::int64_t, kNodes> expiries_{};
};

}  // namespace

TEST_CASE("servers: from what has changed they are the same as from all of it, at every moment") {
  ServerSet::Options options;
  options.run = "bengali";
  options.bootstrap = {node(1).id(), node(200).id()};
  options.flagged_max = 2;
  options.standing_max = 3;
  options.young_ms = 6000;
  std::size_t changes = 0;
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    Storage storage(bengali());
    Members members(seed, storage);
    ServerSet servers(options);
    std::int64_t now_ms = kNow;
    for (int step = 0; step < 150; ++step) {
      CAPTURE(step);
      now_ms = members.next(now_ms);
      if (step % 3 != 2) members.act(now_ms);
      storage.expire(now_ms);
      changes += servers.update(storage, now_ms) ? 1 : 0;
      ServerSet anew(options);
      anew.update(storage, now_ms);
      REQUIRE(bool(servers.ids() == anew.ids()));
      REQUIRE(servers.hash() == anew.hash());
    }
  }
  CHECK(changes > 200);
}

}  // namespace collab::directory
