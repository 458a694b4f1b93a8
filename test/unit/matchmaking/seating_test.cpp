#include "matchmaking/seating.hpp"

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
    const Seating seating = seating_of(peers(count), {2, 2});
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
