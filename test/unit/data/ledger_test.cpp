#include "data/ledger.hpp"

#include "base/random.hpp"

#include <set>

#include "support/doctest.hpp"

namespace collab::data {

TEST_CASE("ledger: a unit is committed once, and what comes again is counted") {
  Ledger ledger;
  CHECK(ledger.first_free() == 0);
  auto added = ledger.add(Work({16, 16}));
  CHECK(added.units == 16);
  CHECK(added.duplicates == 0);
  CHECK(ledger.first_free() == 0);
  added = ledger.add(Work({8, 16}));
  CHECK(added.units == 8);
  CHECK(added.duplicates == 8);
  ledger.add(Work({0, 8}));
  CHECK(ledger.first_free() == 32);
  CHECK(ledger.committed() == Work({0, 32}));
  CHECK(ledger.duplicates() == 8);
}

TEST_CASE("ledger: its bytes come back as they were, and any others are refused") {
  Random random(5);
  Ledger ledger;
  for (int i = 0; i < 40; ++i) ledger.add(Work({random.below(100'000), 1 + random.below(256)}));
  const Bytes bytes = ledger.canonical();
  CHECK(Ledger::decode(bytes).value() == ledger);
  CHECK(Ledger::decode(bytes).value().canonical() == bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK(Ledger::decode(std::span(bytes).first(size)).error() == Errc::bad_request);
  Bytes longer = bytes;
  longer.push_back({});
  CHECK(Ledger::decode(longer).error() == Errc::bad_request);
  Bytes touching = Ledger().canonical();
  touching[16] = std::byte(2);
  touching.resize(20 + 32);
  touching[20 + 8] = std::byte(5);  // 0 .. 4
  touching[36] = std::byte(5);      // 5: one range in two
  touching[36 + 8] = std::byte(1);
  CHECK(Ledger::decode(touching).error() == Errc::bad_request);
  CHECK(Ledger::decode(Bytes(kLedgerBytesMax + 1)).error() == Errc::bad_request);
}

TEST_CASE("ledger: it never outgrows its bound, forgets nothing that is committed and tells what it skipped") {
  Random random(7);
  Ledger ledger;
  std::set<std::uint64_t> committed;
  for (int i = 0; i < 300; ++i) {
    Work work;
    for (int k = 0; k < 60; ++k) {
      const std::uint64_t first = random.below(400'000);
      committed.insert(first);
      work.add({first, 1});
    }
    ledger.add(work);
    CHECK(ledger.committed().ranges().size() <= kLedgerRangesMax);
  }
  CHECK(ledger.canonical().size() <= kLedgerBytesMax);
  CHECK(Ledger::decode(ledger.canonical()).value() == ledger);
  CHECK(ledger.skipped() > 0);
  for (const std::uint64_t unit : committed) CHECK(ledger.committed().contains(unit));
  // some of what was skipped came after all, and was told as a duplicate
  CHECK(ledger.committed().count() <= committed.size() + ledger.skipped());
  CHECK(ledger.committed().count() + ledger.duplicates() >= committed.size() + ledger.skipped());
}

TEST_CASE("ledger: the same rounds give the same bytes, whoever is asked") {
  const auto play = [](std::uint64_t seed) {
    Random random(seed);
    Ledger ledger;
    for (int i = 0; i < 6000; ++i) ledger.add(Work({random.below(1'000'000), 1 + random.below(20)}));
    return ledger.canonical();
  };
  CHECK(play(1) == play(1));
  CHECK(play(1) != play(2));
}

}  // namespace collab::data
