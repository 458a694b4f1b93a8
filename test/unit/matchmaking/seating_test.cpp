#include "matchmaking/seating.hpp"

#include "crypto/fields.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

/// The last ones of `all` by place in it, `count` of them, only dial.
Seating with_clients(Seating seating, std::size_t count) {
  seating.clients.assign(seating.seats.end() - static_cast<std::ptrdiff_t>(count), seating.seats.end());
  return seating;
}

/// One piece as somebody makes it by hand, whatever it says.
Bytes piece_of(const Seating& seating) {
  Hasher id("collab grid");
  id.add(seating.from).add(std::uint64_t(seating.revision));
  FieldWriter writer;
  writer.add(seating.from).add(seating.revision).add(static_cast<std::uint8_t>(seating.radices.size()));
  for (const std::uint32_t radix : seating.radices) {
    id.add(std::uint64_t(radix));
    writer.add(radix);
  }
  for (const Seat seat : seating.seats) id.add(seat);
  const Digest digest = id.finish();
  writer.add(static_cast<std::uint32_t>(seating.seats.size())).add(std::uint16_t(0));
  writer.add_raw(std::as_bytes(std::span(digest)));
  for (const Seat seat : seating.seats) writer.add(seat);
  const Bytes nobody_only_dials((seating.seats.size() + 7) / 8);
  writer.add_raw(std::span(nobody_only_dials));
  return writer.finish();
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
  for (const std::size_t count : {4, 12, 111, 112, 113, 600, 3360}) {
    CAPTURE(count);
    const Seating seating =
        seating_of(peers(count), count < 200 ? std::vector<std::uint32_t>{2, 2} : radices_for(count, 64));
    const auto pieces = encode(seating);
    for (const Bytes& piece : pieces) CHECK(piece.size() <= directory::kValueBytesMax);
    CHECK(decode_seating(pieces).value() == seating);
  }
  for (const std::size_t clients : {1, 111, 112, 113, 300})
    CHECK(decode_seating(encode(with_clients(seating_of(peers(300), {17, 17}), clients))).value().clients.size() ==
          clients);
  const Seating one{3, 2, {9}, {}};
  CHECK(decode_seating(encode(one)).value() == one);
}

TEST_CASE("seating: pieces that are missing, swapped, cut, mixed or changed are refused") {
  const Seating seating = with_clients(seating_of(peers(300), {17, 17}), 9);
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

/// The fewest of `dialled` in a cell of any round of a pass, and whether all cells are filled.
std::pair<std::size_t, bool> fewest_dialled(const std::vector<std::uint32_t>& radices, const std::set<PeerId>& dialled,
                                            const Schedule& schedule, const std::vector<PeerId>& all) {
  std::uint64_t cells = 1;
  for (const std::uint32_t radix : radices) cells *= radix;
  std::size_t fewest = all.size();
  bool filled = true;
  for (std::uint32_t round = 1; round <= schedule.rounds(); ++round) {
    std::map<Digits, std::size_t> by_cell;
    for (const PeerId& peer : all) by_cell[schedule.digits(peer, round)] += dialled.contains(peer) ? 1U : 0U;
    filled = filled && by_cell.size() == cells / radices[round - 1];
    for (const auto& [digits, count] : by_cell) fewest = std::min(fewest, count);
  }
  return {fewest, filled};
}

TEST_CASE("seating: who can be dialled is spread over the cells of every round") {
  for (const std::size_t count : {7, 8, 9, 12, 13, 16, 18, 27, 31, 50, 64, 70, 100, 145, 343, 700}) {
    const auto all = peers(count);
    for (const std::size_t size_max : {3, 4, 6, 8, 16, 64}) {
      const auto radices = radices_for(count, size_max);
      if (radices.size() < 2) continue;
      for (std::size_t dialled = 1; dialled <= count; dialled += 1 + dialled / 4) {
        CAPTURE(count);
        CAPTURE(size_max);
        CAPTURE(dialled);
        // whose ids are low sit first in their cells, so both are tried
        const bool low = dialled % 2 == 0;
        std::set<PeerId> nodes(all.begin(), all.end());
        Seating seating = seating_of(all, radices, dialled);
        while (nodes.size() > dialled) nodes.erase(low ? std::prev(nodes.end()) : nodes.begin());
        for (const PeerId& peer : all)
          if (!nodes.contains(peer)) seating.clients.push_back(seat_of(peer));
        const auto [fewest, filled] = fewest_dialled(radices, nodes, seating.schedule(dialled, all), all);
        CHECK(filled);
        CHECK(fewest >= dialled_per_cell(radices, dialled));
      }
    }
  }
}

TEST_CASE("seating: no two meet twice within a pass, whoever only dials") {
  const auto all = peers(27);
  const Schedule schedule = with_clients(seating_of(all, {3, 3, 3}), 15).schedule(4, all);
  for (const PeerId& peer : all) {
    std::set<PeerId> met;
    for (std::uint32_t round = 1; round <= 3; ++round) {
      const auto group = schedule.group(peer, round);
      CHECK(group.size() == 3);
      met.insert(group.begin(), group.end());
    }
    CHECK(met.size() == 7);
  }
}

TEST_CASE("seating: groups grow where a grid would have cells that nobody can dial") {
  using Radices = std::vector<std::uint32_t>;
  CHECK(follow_radices({}, 16, 16, 6) == Radices{4, 4});
  CHECK(follow_radices({}, 16, 8, 6) == Radices{4, 4});  // two in each cell
  CHECK(follow_radices({}, 16, 7, 6) == Radices{64});
  CHECK(follow_radices({}, 16, 0, 6) == Radices{64});  // somebody may come and lead them
  CHECK(follow_radices({}, 60, 60, 4) == radices_for(60, 4));
  CHECK(follow_radices({}, 60, 17, 4) == Radices{8, 7});
  CHECK(follow_radices({}, 1000, 40, 12) == Radices{32, 31});        // none has two each: at least one
  CHECK(follow_radices({}, 1000, 31, 12) == radices_for(1000, 12));  // nothing helps
  CHECK(follow_radices({4, 4}, 16, 4, 6) == Radices{4, 4});          // as long as each has one
  CHECK(follow_radices({4, 4}, 16, 3, 6) == Radices{64});
  CHECK(follow_radices({8, 7}, 60, 15, 4) == Radices{8, 7});  // one more or less who can be dialled moves nobody
  CHECK(follow_radices({64}, 60, 15, 4) == Radices{64});
  CHECK(follow_radices({8, 7}, 60, 60, 4) == radices_for(60, 4));
  CHECK(follow_radices({}, 65, 3, 64) == Radices{64});  // better most than nobody
  CHECK(follow_radices({}, 128, 3, 64) == radices_for(128, 64));
}

TEST_CASE("seating: where auxiliaries lead, cells that nobody can dial are no reason to leave anybody out") {
  using Radices = std::vector<std::uint32_t>;
  CHECK(follow_radices({}, 65, 3, 64, true) == radices_for(65, 62));
  CHECK(follow_radices({64}, 100, 0, 64, true) == radices_for(100, 62));
  CHECK(follow_radices({10, 10}, 110, 0, 64, true) == Radices{10, 10});
  CHECK(follow_radices({10, 10}, 110, 0, 64) == Radices{64});
  CHECK(follow_radices({64, 2}, 128, 0, 64, true) == radices_for(128, 62));  // who leads needs room, too
  CHECK(follow_radices({}, 16, 0, 6, true) == Radices{64});                  // one group, and all of it in one round
  CHECK(follow_radices({}, 1000, 40, 12, true) == Radices{32, 31});          // who can be dialled is nearer
}

TEST_CASE("seating: a grid with an empty cell, or with too large groups, is nobody's") {
  CHECK(can_seat({2, 2}, 126));
  CHECK(!can_seat({2, 2}, 127));
  for (const auto& [radices, count] : {std::pair(std::vector<std::uint32_t>{3, 3}, 9), {{2, 2, 2}, 8}}) {
    CAPTURE(count);
    const auto seats = static_cast<std::size_t>(count);
    CHECK(can_seat(radices, seats));
    CHECK(!can_seat(radices, seats - 1));
    CHECK(decode_seating({piece_of(seating_of(peers(seats), radices))}));
    CHECK(!decode_seating({piece_of(seating_of(peers(seats - 1), radices))}));
  }
}

TEST_CASE("seating: radices stay while they fit and follow the number of peers when not") {
  using Radices = std::vector<std::uint32_t>;
  CHECK(follow_radices({}, 3, 3, 4) == Radices{3});
  CHECK(follow_radices({}, 12, 12, 4) == Radices{4, 3});
  CHECK(follow_radices({8, 8}, 64, 64, 16) == Radices{8, 8});
  CHECK(follow_radices({8, 8}, 80, 80, 16) == Radices{8, 8});
  CHECK(follow_radices({8, 8}, 81, 81, 16) == radices_for(81, 16));
  CHECK(follow_radices({8, 8}, 63, 63, 16) == radices_for(63, 16));
  CHECK(follow_radices({4, 3}, 13, 13, 4) == radices_for(13, 4));
  CHECK(follow_radices({4, 3}, 4, 4, 4) == Radices{4});
}

}  // namespace
}  // namespace collab::matchmaking
