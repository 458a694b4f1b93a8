#include "matchmaking/seating.hpp"

#include <algorithm>
#include <set>

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

PeerId seated(std::uint64_t number) {
  PeerId id;
  const Digest key = Hasher("test peer").add(number).finish();
  std::copy(key.begin(), key.end(), id.key.begin());
  return id;
}

std::vector<PeerId> peers(std::size_t count) {
  std::vector<PeerId> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(seated(i));
  std::sort(all.begin(), all.end());
  return all;
}

Seating seating_of(const std::vector<PeerId>& all, std::vector<std::uint32_t> radices, std::uint64_t from = 7) {
  Seating seating{from, 0, std::move(radices), {}};
  for (const PeerId& one : all) seating.seats.push_back(seat_of(one));
  return seating;
}

std::vector<directory::Record> records_of(const PeerId& owner, const Seating& seating, unsigned slot) {
  std::vector<directory::Record> records;
  const auto pieces = encode(seating);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    directory::Record record;
    record.key = kSeatingKey;
    record.owner = owner;
    record.subkey = seating_subkey(slot, i);
    record.value = pieces[i];
    records.push_back(record);
  }
  return records;
}

TEST_CASE("seating: pieces of any number of peers fit a record and make the same seating again") {
  for (const std::size_t count : {4, 12, 117, 118, 119, 600, 4096}) {
    CAPTURE(count);
    const Seating seating = seating_of(peers(count), {2, 2});
    const auto pieces = encode(seating);
    for (const Bytes& piece : pieces) CHECK(piece.size() <= directory::kValueBytesMax);
    CHECK(decode_seating(pieces).value() == seating);
  }
  const Seating one{3, 2, {9}, {}};
  CHECK(decode_seating(encode(one)).value() == one);
}

TEST_CASE("seating: pieces that are missing, swapped, cut, mixed or changed are refused") {
  const Seating seating = seating_of(peers(300), {17, 17});
  const auto pieces = encode(seating);
  REQUIRE(pieces.size() == 3);
  CHECK_FALSE(decode_seating({}));
  CHECK_FALSE(decode_seating({pieces[0], pieces[1]}));
  CHECK_FALSE(decode_seating({pieces[1], pieces[0], pieces[2]}));
  auto cut = pieces;
  cut[2].pop_back();
  CHECK_FALSE(decode_seating(cut));
  auto mixed = pieces;
  mixed[1] = encode(seating_of(peers(300), {17, 17}, 8))[1];
  CHECK_FALSE(decode_seating(mixed));
  for (std::size_t at = 0; at < pieces[0].size(); ++at) {
    auto changed = pieces;
    changed[0][at] ^= std::byte{1};
    CHECK_FALSE(decode_seating(changed));
  }
}

TEST_CASE("seating: the schedule is that of the whole ids, however few of them a peer knows") {
  const auto all = peers(12);
  const Seating seating = seating_of(all, {4, 3});
  const Schedule whole = seating.schedule(9, all);
  const Schedule mine = seating.schedule(9, {all[5]});
  for (const std::uint32_t round : {1U, 2U}) {
    CHECK(whole.digits(all[5], round) == mine.digits(all[5], round));
    CHECK(whole.group(all[5], round).size() == mine.group(all[5], round).size());
  }
  CHECK(seating.has(all[3]));
  CHECK_FALSE(seating.has(seated(99)));
}

TEST_CASE("seating: readers see what is whole, of every writer, also beside what a longer one left") {
  const auto all = peers(300);
  auto records = records_of(all[0], seating_of(all, {17, 17}), 0);
  const Seating shorter = seating_of(peers(12), {4, 3}, 9);
  const auto newer = records_of(all[0], shorter, 0);
  records[0] = newer[0];
  const auto next = records_of(all[0], Seating{20, 1, {3}, {}}, 1);
  records.insert(records.end(), next.begin(), next.end());
  const auto other = records_of(all[1], seating_of(all, {17, 17}), 0);
  records.push_back(other[1]);  // not whole
  const auto found = read_seatings(records);
  REQUIRE(found.size() == 1);
  CHECK(found.at(all[0]) == std::vector<Seating>{shorter, Seating{20, 1, {3}, {}}});
}

TEST_CASE("seating: of two writers everybody prefers the same one") {
  CHECK(goes_before(seated(1), seated(2), 5) != goes_before(seated(2), seated(1), 5));
  CHECK_FALSE(goes_before(seated(1), seated(1), 5));
}

TEST_CASE("seating: radices stay while they fit and follow the number of peers when not") {
  using Radices = std::vector<std::uint32_t>;
  CHECK(follow_radices({}, 3, 4) == Radices{3});
  CHECK(follow_radices({}, 12, 4) == Radices{4, 3});
  CHECK(follow_radices({8, 8}, 64, 16) == Radices{8, 8});
  CHECK(follow_radices({8, 8}, 80, 16) == Radices{8, 8});
  CHECK(follow_radices({8, 8}, 81, 16) == radices_for(81, 16));
  CHECK(follow_radices({8, 8}, 63, 16) == radices_for(63, 16));
  CHECK(follow_radices({4, 3}, 13, 4) == radices_for(13, 4));
  CHECK(follow_radices({4, 3}, 4, 4) == Radices{4});
}

}  // namespace
}  // namespace collab::matchmaking
