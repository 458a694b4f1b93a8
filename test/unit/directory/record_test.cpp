#include "directory/record.hpp"

#include "directory/storage.hpp"
#include "unit/directory/records.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

Identity identity(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

Bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

SignedRecord record(const Identity& owner, std::uint64_t sequence = 1, std::int64_t expires_ms = kNow + 30'000,
                    std::string key = "peer", std::string subkey = "", std::string value = "here",
                    std::string run = "bengali") {
  Record draft;
  draft.key = std::move(key);
  draft.subkey = std::move(subkey);
  draft.sequence = sequence;
  draft.expires_ms = expires_ms;
  draft.value = bytes_of(value);
  return sign_record(owner, std::move(run), std::move(draft));
}

std::string value_at(const Storage& storage, const std::string& key) {
  const auto records = storage.records(key, kNow);
  if (records.size() != 1) return "(" + std::to_string(records.size()) + " records)";
  const Bytes& value = records[0]->record.value;
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

}  // namespace

TEST_CASE("record: it survives the trip, and no other bytes decode to it") {
  const SignedRecord sent = record(identity(1), 7, kNow + 1000, "a/key", "sub");
  const Bytes bytes = encode(sent);
  const auto back = decode_record(bytes);
  REQUIRE(back);
  CHECK(encode(*back) == bytes);
  CHECK(back->record.key == "a/key");
  CHECK(back->record.subkey == "sub");
  CHECK(back->record.owner == identity(1).id());
  CHECK(back->record.sequence == 7);
  CHECK(back->record.expires_ms == kNow + 1000);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(decode_record(std::span(bytes).first(size)).error() == Errc::bad_request);
  }
  Bytes longer = bytes;
  longer.push_back(std::byte(0));
  CHECK(decode_record(longer).error() == Errc::bad_request);
}

TEST_CASE("record: its names are read from the encoding as from the record, and from nothing torn") {
  const SignedRecord sent = record(identity(1), 7, kNow + 1000, "a/key", "sub");
  const Bytes bytes = encode(sent);
  const auto name = name_of(bytes);
  REQUIRE(name);
  CHECK(name->key == "a/key");
  CHECK(name->owner == identity(1).id());
  CHECK(name->subkey == "sub");
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(name_of(std::span(bytes).first(size)));
}

TEST_CASE("record: the largest fits its bound, one byte more is refused") {
  const std::string run(64, 'r');
  const SignedRecord largest = record(identity(1), 1, kNow, std::string(kKeyBytesMax, 'k'),
                                      std::string(kSubkeyBytesMax, 's'), std::string(kValueBytesMax, 'v'), run);
  CHECK(encode(largest).size() <= kRecordBytesMax);
  CHECK(decode_record(encode(largest)));
  SignedRecord larger = largest;
  larger.record.value.push_back(std::byte(1));
  CHECK(decode_record(encode(larger)).error() == Errc::bad_request);
  larger = largest;
  larger.record.key += "k";
  CHECK(decode_record(encode(larger)).error() == Errc::bad_request);
}

TEST_CASE("record: another run, an expiry outside the window and a forgery are refused, each for its reason") {
  Storage storage(bengali());
  const auto refusal = [&](SignedRecord offered) {
    const auto result = storage.offer(std::move(offered), kNow, Storage::Source::put);
    REQUIRE(result.outcome == Storage::Outcome::refused);
    return result.refusal.code;
  };
  const Identity owner = identity(1);
  CHECK(refusal(record(owner, 1, kNow + 30'000, "k", "", "v", "tamil")) == Errc::denied);
  CHECK(refusal(record(owner, 1, kNow - 5'001)) == Errc::stale);
  CHECK(refusal(record(owner, 1, kNow + 120'001)) == Errc::bad_request);
  CHECK(refusal(record(owner, 1, std::numeric_limits<std::int64_t>::min())) == Errc::stale);

  SignedRecord renamed_run = record(owner, 1, kNow + 1000, "k", "", "v", "tamil");
  renamed_run.run = "bengali";
  CHECK(refusal(renamed_run) == Errc::denied);
  SignedRecord other_owner = record(owner);
  other_owner.record.owner = identity(2).id();
  CHECK(refusal(other_owner) == Errc::denied);
  for (const int change : {0, 1, 2, 3, 4}) {
    CAPTURE(change);
    SignedRecord forged = record(owner);
    if (change == 0) forged.record.sequence += 1;
    if (change == 1) forged.record.expires_ms += 1;
    if (change == 2) forged.record.value[0] ^= std::byte(1);
    if (change == 3) forged.record.subkey = "x";
    if (change == 4) forged.signature[0] ^= 1U;
    CHECK(refusal(forged) == Errc::denied);
  }
  CHECK(storage.size() == 0);
  CHECK(storage.offer(record(owner, 1, kNow - 5'000), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
  CHECK(storage.records("peer", kNow).empty());  // taken because clocks differ, not shown
}

TEST_CASE("record: only the authority writes bans and the manifest, and those may last") {
  Storage::Options options = bengali();
  const Identity authority = identity(9);
  options.rules.authority = authority.id();
  Storage storage(options);
  const auto offer = [&](const Identity& owner, std::string key) {
    const auto year_ms = std::int64_t(365) * 24 * 3600 * 1000;
    return storage.offer(record(owner, 1, kNow + year_ms, std::move(key)), kNow, Storage::Source::put).outcome;
  };
  CHECK(offer(authority, "ban") == Storage::Outcome::stored);
  CHECK(offer(authority, "manifest") == Storage::Outcome::stored);
  CHECK(offer(identity(1), "ban") == Storage::Outcome::refused);
  CHECK(offer(identity(1), "manifest") == Storage::Outcome::refused);
  CHECK(offer(authority, "peer") == Storage::Outcome::refused);  // a year ahead
}

TEST_CASE("storage: the greatest sequence, then the latest expiry wins in every order of arrival") {
  const Identity owner = identity(1);
  std::vector<SignedRecord> records;
  records.push_back(record(owner, 1, kNow + 90'000, "k", "", "first"));
  records.push_back(record(owner, 2, kNow + 20'000, "k", "", "second"));
  records.push_back(record(owner, 2, kNow + 30'000, "k", "", "winner"));
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    Storage storage(bengali());
    for (const std::size_t i : order) storage.offer(records[i], kNow, Storage::Source::put);
    CHECK(value_at(storage, "k") == "winner");
    CHECK(storage.size() == 1);
    CHECK(storage.offer(records[0], kNow, Storage::Source::put).outcome == Storage::Outcome::older);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("storage: of two records with one sequence the same one stays everywhere, and both are evidence") {
  const Identity owner = identity(1);
  const SignedRecord a = record(owner, 5, kNow + 1000, "k", "", "a");
  const SignedRecord b = record(owner, 5, kNow + 1000, "k", "", "b");
  Storage one(bengali());
  Storage two(bengali());
  one.offer(a, kNow, Storage::Source::put);
  one.offer(b, kNow, Storage::Source::put);
  two.offer(b, kNow, Storage::Source::put);
  two.offer(a, kNow, Storage::Source::put);
  CHECK(value_at(one, "k") == value_at(two, "k"));
  CHECK(one.evidence().size() == 1);
  CHECK(two.evidence().size() == 1);
}

TEST_CASE("storage: it holds a record in the very bytes of its newest version alone") {
  Storage storage(bengali());
  const auto holds = [&](const SignedRecord& of) {
    const Bytes bytes = encode(of);
    return storage.holds(name_of(of.record), bytes);
  };
  const SignedRecord first = record(identity(1), 1);
  const SignedRecord second = record(identity(1), 2);
  CHECK_FALSE(holds(first));
  storage.offer(first, kNow, Storage::Source::read);
  CHECK(holds(first));
  CHECK_FALSE(holds(record(identity(1), 1, kNow + 30'000, "peer", "other")));
  CHECK_FALSE(holds(record(identity(2), 1)));
  storage.offer(second, kNow, Storage::Source::read);
  CHECK(holds(second));
  CHECK_FALSE(holds(first));
  SignedRecord forged = second;
  forged.signature[0] ^= 1U;
  CHECK_FALSE(holds(forged));
}

TEST_CASE("storage: what a shorter-lived record replaced does not come back when that expires") {
  const Identity owner = identity(1);
  Storage storage(bengali());
  const SignedRecord long_lived = record(owner, 1, kNow + 100'000, "k", "", "old");
  storage.offer(long_lived, kNow, Storage::Source::put);
  storage.offer(record(owner, 2, kNow + 1'000, "k", "", "new"), kNow, Storage::Source::put);
  storage.expire(kNow + 50'000);
  CHECK(storage.records("k", kNow + 50'000).empty());
  CHECK(storage.offer(long_lived, kNow + 50'000, Storage::Source::put).outcome == Storage::Outcome::older);
  storage.expire(kNow + 105'001);
  CHECK(storage.size() == 0);
  CHECK(storage.bytes() == 0);
  CHECK(storage.bucket_hashes() == Storage(bengali()).bucket_hashes());
}

TEST_CASE("storage: pages tell each change once; a withdrawal is a change to readers, a renewal is not") {
  const Identity a = identity(1);
  const Identity b = identity(2);
  Storage storage(bengali());
  storage.offer(record(a, 1, kNow + 1000, "k"), kNow, Storage::Source::put);
  storage.offer(record(b, 1, kNow + 1000, "k"), kNow, Storage::Source::put);
  storage.offer(record(b, 1, kNow + 1000, "other"), kNow, Storage::Source::put);
  auto page = storage.page("k", 0, kNow, 1);  // room for one byte: still one record comes
  REQUIRE(page.records.size() == 1);
  CHECK(page.more);
  page = storage.page("k", page.next, kNow, 1 << 20);
  REQUIRE(page.records.size() == 1);
  CHECK(decode_record(page.records[0])->record.owner == b.id());
  CHECK_FALSE(page.more);
  const std::uint64_t before = page.next;
  CHECK(storage.page("k", before, kNow, 1 << 20).records.empty());

  const std::uint64_t version = storage.visible_version("k");
  storage.offer(record(a, 2, kNow + 2000, "k"), kNow, Storage::Source::put);
  CHECK(storage.visible_version("k") == version);
  storage.offer(record(a, 3, kNow + 2000, "k", "", ""), kNow, Storage::Source::put);
  CHECK(storage.visible_version("k") != version);
  CHECK(storage.records("k", kNow).size() == 1);
  CHECK(storage.page("k", before, kNow, 1 << 20).records.size() == 1);
}

TEST_CASE("storage: whoever has seen any of the changes gets those after it, the oldest first") {
  Storage storage(bengali());
  const auto put = [&](unsigned char owner, std::uint64_t sequence, const std::string& key = "k") {
    storage.offer(record(identity(owner), sequence, kNow + 1000, key), kNow, Storage::Source::put);
  };
  for (unsigned char owner = 1; owner <= 7; ++owner) put(owner, 1);
  put(2, 2);
  put(9, 1, "other");
  put(5, 2);
  const std::vector<std::pair<std::uint64_t, unsigned char>> changes = {{1, 1}, {3, 3}, {4, 4}, {6, 6},
                                                                        {7, 7}, {8, 2}, {10, 5}};
  CHECK(storage.latest("k") == 10);
  for (std::uint64_t since = 0; since <= 11; ++since) {
    CAPTURE(since);
    std::vector<PeerId> due;
    for (const auto& [change, owner] : changes)
      if (change > since) due.push_back(identity(owner).id());
    std::vector<PeerId> told;
    for (const SignedRecord* changed : storage.changed("k", since)) told.push_back(changed->record.owner);
    CHECK(bool(told == due));
    CHECK(storage.page("k", since, kNow, 1 << 20).records.size() == due.size());
  }
}

TEST_CASE("storage: what was renewed is forgotten when its last version is over, not when its first was") {
  Storage storage(bengali());
  for (const std::int64_t lasts_ms : {1000, 9000, 20'000})
    storage.offer(record(identity(1), static_cast<std::uint64_t>(lasts_ms), kNow + lasts_ms, "k"), kNow,
                  Storage::Source::put);
  storage.expire(kNow + 1000 + kExpiryBehindMsMax + 1);
  storage.expire(kNow + 20'000 + kExpiryBehindMsMax);
  CHECK(storage.size() == 1);
  storage.expire(kNow + 20'000 + kExpiryBehindMsMax + 1);
  CHECK(storage.size() == 0);
  CHECK(storage.keys().empty());
}

TEST_CASE("storage: a page leaves out what its reader has in these very bytes") {
  Storage storage(bengali());
  std::vector<SignedRecord> records;
  for (unsigned char i = 1; i <= 5; ++i) {
    records.push_back(record(identity(i), 1, kNow + 1000, "k"));
    storage.offer(records.back(), kNow, Storage::Source::put);
  }
  std::vector<Mark> known = storage.marks("k");
  CHECK(known.size() == 5);
  CHECK(std::is_sorted(known.begin(), known.end()));
  CHECK(storage.marks("other").empty());
  auto page = storage.page("k", 0, kNow, 1, known);
  CHECK(page.records.empty());
  CHECK_FALSE(page.more);
  CHECK(page.next == storage.latest("k"));  // what is left out is not asked for again

  CHECK(mark_of(record(identity(2), 1, kNow + 1000, "k", "", "other bytes")) != mark_of(records[1]));
  storage.offer(record(identity(3), 2, kNow + 1000, "k"), kNow, Storage::Source::put);
  std::erase(known, mark_of(records[3]));
  page = storage.page("k", 0, kNow, 1 << 20, known);
  REQUIRE(page.records.size() == 2);
  CHECK(decode_record(page.records[0])->record.owner == identity(4).id());
  CHECK(decode_record(page.records[1])->record.owner == identity(3).id());
}

TEST_CASE("storage: an owner's quotas bound its records and rate; forgeries use up nothing") {
  const Identity owner = identity(1);
  Storage storage(bengali());
  SignedRecord forged = record(owner, 1, kNow + 1000, "k");
  forged.signature[0] ^= 1U;
  for (int i = 0; i < 100; ++i) storage.offer(forged, kNow, Storage::Source::put);
  const auto put = [&](std::uint64_t sequence, int number, std::int64_t now_ms) {
    const auto offered = record(owner, sequence, kNow + 100'000, "k", std::to_string(number));
    return storage.offer(offered, now_ms, Storage::Source::put);
  };
  std::size_t stored = 0;
  for (int i = 0; i < 70; ++i) {
    const auto offered = put(1, i, kNow);
    if (offered.outcome == Storage::Outcome::stored) ++stored;
    if (offered.outcome == Storage::Outcome::refused) CHECK(offered.refusal.code == Errc::busy);
  }
  CHECK(stored == 64);
  // the burst is spent: a second later five renewals pass
  std::size_t renewed = 0;
  for (int i = 0; i < 10; ++i) renewed += put(2, i, kNow + 1000).outcome == Storage::Outcome::stored ? 1U : 0U;
  CHECK(renewed == 5);
  const auto read = record(owner, 3, kNow + 100'000, "k", "0");  // what we read, its storer has rated
  CHECK(storage.offer(read, kNow + 1000, Storage::Source::read).outcome == Storage::Outcome::stored);
}

TEST_CASE("storage: its records, its bytes and a network's share are bounded") {
  Storage::Options options = bengali();
  options.records_max = 5;
  Storage few(options);
  options = bengali();
  options.bytes_max = 1000;
  Storage small(options);
  options = bengali();
  options.origin_owners = 1;
  options.owner_records_max = 3;
  Storage shared(options);
  const std::string network = "192.0.2.0/24";
  std::size_t from_network = 0;
  for (unsigned char i = 1; i <= 20; ++i) {
    const SignedRecord offered = record(identity(i));
    few.offer(offered, kNow, Storage::Source::put);
    small.offer(offered, kNow, Storage::Source::put);
    const auto kept = shared.offer(offered, kNow, Storage::Source::put, network).outcome;
    from_network += kept == Storage::Outcome::stored ? 1U : 0U;
  }
  CHECK(few.size() == 5);
  CHECK(small.bytes() <= 1000);
  CHECK(small.size() > 0);
  CHECK(from_network == 3);
  CHECK(shared.offer(record(identity(50)), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
  const std::int64_t later = kNow + 200'000;
  shared.expire(later);
  CHECK(shared.offer(record(identity(60), 1, later), later, Storage::Source::put, network).outcome ==
        Storage::Outcome::stored);
}

TEST_CASE("storage: equal contents have equal bucket hashes, one change shows in one bucket") {
  Storage a(bengali());
  Storage b(bengali());
  for (unsigned char i = 1; i <= 10; ++i) a.offer(record(identity(i)), kNow, Storage::Source::put);
  for (unsigned char i = 10; i >= 1; --i) b.offer(record(identity(i)), kNow, Storage::Source::put);
  CHECK(a.bucket_hashes() == b.bucket_hashes());
  a.offer(record(identity(3), 2), kNow, Storage::Source::put);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) differing += a.bucket_hashes()[i] != b.bucket_hashes()[i] ? 1U : 0U;
  CHECK(differing == 1);
}

}  // namespace collab::directory
