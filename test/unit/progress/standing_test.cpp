#include "progress/standing.hpp"

#include "progress/rate.hpp"

#include <cmath>
#include <limits>

#include "support/doctest.hpp"

namespace collab::progress {
namespace {

Standing standing(unsigned char number, std::uint64_t epoch, unsigned char hash = 0, std::uint64_t samples = 0) {
  Standing out;
  out.peer.key[0] = number;
  out.record.epoch = epoch;
  out.record.parameters[0] = hash;
  out.record.samples = samples;
  out.record.period_ms = 1000;
  out.record.taking_part = true;
  return out;
}

Digest hash(unsigned char number) {
  Digest digest{};
  digest[0] = number;
  return digest;
}

}  // namespace

TEST_CASE("standing: the global epoch is the highest that two show, of two or one the highest") {
  CHECK_FALSE(global_epoch({}));
  CHECK(global_epoch({standing(1, 5)}) == 5);
  CHECK(global_epoch({standing(1, 5), standing(2, 9)}) == 9);
  CHECK(global_epoch({standing(1, 5), standing(2, 9), standing(3, 7)}) == 7);
  CHECK(global_epoch({standing(1, 900), standing(2, 9), standing(3, 9), standing(4, 8)}) == 9);
}

TEST_CASE("standing: what is fresh stays so until the moment that is told, and not a millisecond longer") {
  Record record = standing(1, 5).record;
  record.unix_ms = 1'000'000;
  for (const std::int64_t now_ms : {1'000'000, 1'003'999, 1'004'000, 900'000, 939'999, 940'000}) {
    CAPTURE(now_ms);
    const std::int64_t until_ms = stays_so_until(record, now_ms);
    CHECK(until_ms >= now_ms);
    CHECK(is_fresh(record, until_ms) == is_fresh(record, now_ms));
    CHECK(is_fresh(record, until_ms + 1) != is_fresh(record, now_ms));
  }
  CHECK(stays_so_until(record, 1'004'001) == std::numeric_limits<std::int64_t>::max());  // too old for ever
}

TEST_CASE("standing: the majority is by peers, ties by samples, then by the lower hash") {
  CHECK_FALSE(majority({standing(1, 5)}, 6));
  CHECK(majority({standing(1, 5, 2), standing(2, 5, 1), standing(3, 5, 2), standing(4, 6, 1)}, 5) == hash(2));
  CHECK(majority({standing(1, 5, 1, 10), standing(2, 5, 2, 11)}, 5) == hash(2));
  CHECK(majority({standing(1, 5, 2, 10), standing(2, 5, 1, 10)}, 5) == hash(1));
}

TEST_CASE("standing: of those with the majority's parameters the majority's ledger, and who tells none has no voice") {
  const auto with_ledger = [](Standing one, unsigned char ledger) {
    one.record.ledger = hash(ledger);
    return one;
  };
  const Standing other = with_ledger(standing(1, 5, 1), 7);
  CHECK_FALSE(majority_ledger({other}, 6));
  CHECK_FALSE(majority_ledger({standing(2, 5, 2), standing(3, 5, 2), other}, 5));
  const Standing one = with_ledger(standing(2, 5, 2), 8);
  const Standing two = with_ledger(standing(3, 5, 2), 9);
  CHECK(majority_ledger({one, two, with_ledger(standing(4, 5, 2), 9), other}, 5) == hash(9));
  CHECK(majority_ledger({one, two, standing(5, 5, 2)}, 5) == hash(8));
}

TEST_CASE("standing: samples go on at the told rate, for two periods at most") {
  Standing one = standing(1, 3, 0, 100);
  one.record.samples_per_s = 10;
  one.record.unix_ms = 1'000'000;
  CHECK(gathered({one}, 3, 1'000'500) == doctest::Approx(105));
  CHECK(gathered({one}, 3, 1'060'000) == doctest::Approx(120));
  CHECK(gathered({one}, 4, 1'000'500) == 0);
  one.record.taking_part = false;
  CHECK(gathered({one}, 3, 1'000'500) == 0);
}

TEST_CASE("standing: who was in step when it told of one of the two epochs before gathers since this one began") {
  Steps steps;
  for (const std::uint64_t epoch : {5, 6, 7}) steps.take(epoch, 1'000'000 + 1000 * static_cast<std::int64_t>(epoch));
  Standing one = standing(1, 7, 0, 100);
  one.record.samples_per_s = 10;
  const auto told = [&](std::uint64_t epoch, std::int64_t unix_ms) {
    one.record.epoch = epoch;
    one.record.unix_ms = unix_ms;
    return gathered(one.record, steps, 1'007'500);
  };
  CHECK(told(7, 1'007'000) == doctest::Approx(105));
  CHECK(told(6, 1'006'900) == doctest::Approx(5));
  CHECK(told(6, 1'007'001) == 0);  // it has not come along
  CHECK(told(5, 1'006'000) == doctest::Approx(5));
  CHECK(told(5, 1'006'001) == 0);
  CHECK(told(4, 1'004'000) == 0);
  CHECK(told(8, 1'007'000) == 0);
  CHECK(told(6, 1'005'300) == doctest::Approx(3));  // and for two periods at most
  one.record.taking_part = false;
  CHECK(told(6, 1'006'900) == 0);
  one.record.taking_part = true;
  steps.take(9, 1'007'100);  // by a state: who is where is not known
  CHECK(told(8, 1'007'000) == 0);
  steps.take(10, 1'007'200);
  CHECK(told(9, 1'007'150) == doctest::Approx(3));
  CHECK(told(8, 1'007'000) == 0);
}

TEST_CASE("standing: a record speaks for two of its periods and a little") {
  Record record = standing(1, 3).record;
  record.unix_ms = 1'000'000;
  CHECK(is_fresh(record, 1'002'000));
  CHECK(is_fresh(record, 1'004'000));
  CHECK_FALSE(is_fresh(record, 1'004'001));
  CHECK_FALSE(is_fresh(record, 1'000'000 - 60'001));
}

TEST_CASE("progress record: round trip, and numbers that nobody can mean are refused") {
  Record record = standing(1, 7, 3, 44).record;
  record.loss = std::nan("");
  const auto back = decode(encode(record));
  REQUIRE(back);
  CHECK(back->epoch == 7);
  CHECK(back->samples == 44);
  CHECK(back->parameters == record.parameters);
  CHECK(std::isnan(back->loss));
  record.period_ms = 0;
  CHECK_FALSE(decode(encode(record)));
  record.period_ms = 1000;
  record.samples_per_s = std::nan("");
  CHECK_FALSE(decode(encode(record)));
  CHECK_FALSE(decode({}));
  CHECK(decode_keeper(encode(KeeperRecord{7}))->epoch == 7);
  CHECK_FALSE(decode_keeper({}));
}

TEST_CASE("rate: right from the first microbatch, and pauses do not count") {
  Rate rate;
  const TimePoint start{};
  rate.add(16, start);
  CHECK(rate.samples_per_s() == 0);
  rate.add(16, start + std::chrono::seconds(2));
  CHECK(rate.samples_per_s() == doctest::Approx(8));
  rate.pause(start + std::chrono::seconds(2), start + std::chrono::seconds(60));
  rate.add(16, start + std::chrono::seconds(62));
  CHECK(rate.samples_per_s() == doctest::Approx(8));
}

}  // namespace collab::progress
