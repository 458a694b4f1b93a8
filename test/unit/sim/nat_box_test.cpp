#include "sim/nat_box.hpp"

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using std::chrono::seconds;

const net::Address kInside{"10.0.0.2", 40000};
const net::Address kFirst{"198.51.100.1", 4600};
const net::Address kSameHost{"198.51.100.1", 4601};
const net::Address kOther{"198.51.100.2", 4600};
constexpr TimePoint kNow = TimePoint(seconds(1000));

NatBox box(NatMapping mapping, NatFilter filter) {
  NatOptions options;
  options.mapping = mapping;
  options.filter = filter;
  return {"203.0.113.7", options};
}

}  // namespace

TEST_CASE("nat box: who shares an outside port follows from the mapping") {
  for (const auto mapping : {NatMapping::endpoint_independent, NatMapping::address_dependent, NatMapping::symmetric}) {
    CAPTURE(name(mapping));
    NatBox nat = box(mapping, NatFilter::address_and_port);
    const net::Address seen = nat.out(kInside, kFirst, kNow).value();
    CHECK(seen.host == "203.0.113.7");
    CHECK(nat.out(kInside, kFirst, kNow) == seen);
    CHECK((nat.out(kInside, kSameHost, kNow) == seen) == (mapping != NatMapping::symmetric));
    CHECK((nat.out(kInside, kOther, kNow) == seen) == (mapping == NatMapping::endpoint_independent));
    CHECK(nat.out({"10.0.0.3", 40000}, kFirst, kNow) != seen);
  }
}

TEST_CASE("nat box: who may come in follows from the filter, and nobody does where nothing went out") {
  for (const auto filter : {NatFilter::none, NatFilter::address, NatFilter::address_and_port}) {
    CAPTURE(name(filter));
    NatBox nat = box(NatMapping::endpoint_independent, filter);
    CHECK_FALSE(nat.in(20000, kFirst, kNow));
    const std::uint16_t port = nat.out(kInside, kFirst, kNow)->port;
    CHECK(nat.in(port, kFirst, kNow) == kInside);
    CHECK(nat.in(port, kSameHost, kNow).has_value() == (filter != NatFilter::address_and_port));
    CHECK(nat.in(port, kOther, kNow).has_value() == (filter == NatFilter::none));
    CHECK_FALSE(nat.in(static_cast<std::uint16_t>(port + 1), kFirst, kNow));
  }
}

TEST_CASE("nat box: a mapping lives for as long as something passes it in time, and a reboot ends all") {
  NatBox nat = box(NatMapping::symmetric, NatFilter::none);
  const std::uint16_t port = nat.out(kInside, kFirst, kNow)->port;
  CHECK(nat.passes(port, kNow + seconds(119)));
  CHECK(nat.in(port, kFirst, kNow + seconds(230)).has_value());
  CHECK_FALSE(nat.passes(port, kNow + seconds(351)));
  CHECK_FALSE(nat.in(port, kFirst, kNow + seconds(352)));
  const TimePoint later = kNow + seconds(400);
  CHECK(nat.out(kInside, kFirst, later)->port != port);
  CHECK(nat.mappings() == 1);
  nat.reboot("203.0.113.8");
  CHECK(nat.mappings() == 0);
  CHECK(nat.out(kInside, kFirst, later)->host == "203.0.113.8");
}

TEST_CASE("nat box: some let nothing out but to 443, some do not let their own machines meet outside") {
  NatOptions options;
  options.only_443 = true;
  NatBox nat("203.0.113.7", options);
  CHECK_FALSE(nat.out(kInside, kFirst, kNow));
  CHECK(nat.out(kInside, {"198.51.100.1", 443}, kNow));
  CHECK_FALSE(nat.out(kInside, {"203.0.113.7", 443}, kNow));
  options.hairpin = true;
  NatBox folds("203.0.113.7", options);
  CHECK(folds.out(kInside, {"203.0.113.7", 443}, kNow));
}

TEST_CASE("nat box: a firewall filters, and leaves addresses and ports alone") {
  NatOptions options;
  options.mapping = NatMapping::none;
  NatBox wall(kInside.host, options);
  CHECK(wall.out(kInside, kFirst, kNow) == kInside);
  CHECK(wall.out(kInside, kOther, kNow) == kInside);
  CHECK(wall.in(kInside.port, kFirst, kNow) == kInside);
  CHECK_FALSE(wall.in(kInside.port, kSameHost, kNow));
  CHECK_FALSE(wall.in(443, kFirst, kNow));
}

}  // namespace collab::sim
