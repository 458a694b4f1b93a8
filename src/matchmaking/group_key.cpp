#include "matchmaking/group_key.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace collab::matchmaking {
namespace {

std::uint64_t product(std::span<const std::uint32_t> radices) {
  std::uint64_t cells = 1;
  for (const std::uint32_t radix : radices) cells *= radix;
  return cells;
}

/// The largest m with m^d <= n.
std::uint32_t root(std::uint64_t n, std::size_t d) {
  const auto fits = [&](std::uint64_t m) {
    std::uint64_t power = 1;
    for (std::size_t i = 0; i < d; ++i) {
      if (power > n / m) return false;
      power *= m;
    }
    return true;
  };
  std::uint32_t m = 1;
  while (fits(m + 1)) ++m;
  return m;
}

/// Eight bytes of a digest as a number.
std::uint64_t number(const Digest& digest) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = value << 8U | digest[i];
  return value;
}

/// Rank in the list sorted by H(grid id, seat), those who can be dialled before the others, written in the radices of
/// dimensions 2 to d. The last one changes fastest: so the first of the list are spread evenly over the last digits
/// alone, over the last two, and so on, which are what later keys keep of these.
std::vector<Digits> first_digits(const Grid& grid, std::span<const PeerId> peers, const std::vector<bool>& clients) {
  std::vector<std::tuple<bool, Digest, std::size_t>> places;
  for (std::size_t i = 0; i < peers.size(); ++i)
    places.emplace_back(clients[i], Hasher("collab grid place").add(grid.id).add(seat_of(peers[i])).finish(), i);
  std::sort(places.begin(), places.end());
  std::vector<Digits> digits(peers.size(), Digits(grid.radices.size() - 1));
  for (std::size_t place = 0; place < places.size(); ++place) {
    std::uint64_t rest = place;
    for (std::size_t k = grid.radices.size(); k-- > 1;) {
      digits[std::get<std::size_t>(places[place])][k - 1] = static_cast<std::uint32_t>(rest % grid.radices[k]);
      rest /= grid.radices[k];
    }
  }
  return digits;
}

/// The slots of one round, cell by cell in the order of their digits.
class Slots {
 public:
  Slots(const Grid& grid, std::uint32_t round, std::uint64_t epoch)
      : grid_(grid), round_(round), epoch_(epoch), radix_(grid.radices[round - 1]) {}

  /// Of a cell with so many `members`, by their place in it; the first `dialled` of them can be dialled. Cells with too
  /// few members leave the same slots empty, the last ones.
  std::vector<std::uint32_t> of(const Digits& cell, std::size_t members, std::size_t dialled) {
    std::vector<std::uint32_t> slots;
    std::vector<bool> taken(std::min<std::size_t>(members, radix_));
    const auto sent = sent_from(cell);
    std::uint32_t next = 0;
    while (slots.size() < taken.size()) {
      while (taken[next]) ++next;
      slots.push_back(slots.size() < dialled ? fewest(sent, taken, next) : next);
      taken[slots.back()] = true;
    }
    // surplus peers begin at a slot of the cell's own, or the first columns would get them all
    const std::uint64_t first = members > radix_ ? surplus(cell) : 0;
    while (slots.size() < members) slots.push_back(static_cast<std::uint32_t>((slots.size() + first) % radix_));
    for (std::size_t i = 0; i < dialled; ++i)
      for (Counts* counts : sent) ++(*counts)[slots[i]];
    return slots;
  }

 private:
  using Counts = std::vector<std::uint32_t>;  ///< of those who can be dialled, by the slot that they went to

  /// From all cells that have the same digits as this one but for the oldest, but for the two oldest, and so on: the
  /// digits that keys of the next round, of the one after it, … still have.
  std::vector<Counts*> sent_from(const Digits& cell) {
    std::vector<Counts*> all;
    for (std::size_t oldest = 1; oldest <= cell.size(); ++oldest) {
      const Digits kept(cell.begin() + static_cast<std::ptrdiff_t>(oldest), cell.end());
      all.push_back(&sent_.try_emplace(kept, radix_).first->second);
    }
    return all;
  }
  std::uint32_t fewest(const std::vector<Counts*>& sent, const std::vector<bool>& taken, std::uint32_t first) const {
    const auto fewer = [&](std::uint32_t a, std::uint32_t b) {
      for (const Counts* counts : sent)
        if ((*counts)[a] != (*counts)[b]) return (*counts)[a] < (*counts)[b];
      return false;
    };
    std::uint32_t best = first;
    for (std::uint32_t slot = first + 1; slot < taken.size(); ++slot)
      if (!taken[slot] && fewer(slot, best)) best = slot;
    return best;
  }
  std::uint64_t surplus(const Digits& cell) const {
    Hasher hasher("collab grid surplus");
    hasher.add(grid_.id).add(epoch_).add(std::uint64_t(round_));
    for (const std::uint32_t digit : cell) hasher.add(std::uint64_t(digit));
    return number(hasher.finish()) % radix_;
  }

  const Grid& grid_;
  std::uint32_t round_;
  std::uint64_t epoch_;
  std::uint32_t radix_;
  std::map<Digits, Counts> sent_;  // by the digits that are kept
};

void move_on(Digits& digits, std::uint32_t& dropped, std::uint32_t slot) {
  if (digits.empty()) return;
  dropped = digits.front();
  digits.erase(digits.begin());
  digits.push_back(slot);
}

}  // namespace

std::vector<std::uint32_t> radices_for(std::uint64_t peers, std::size_t group_size_max) {
  assert(peers >= 1 && group_size_max >= 2 && group_size_max <= kGroupSizeMax);
  if (peers <= group_size_max) return {static_cast<std::uint32_t>(peers)};
  std::vector<std::uint32_t> radices;
  for (std::size_t d = 2; d <= kDimensionsMax; ++d) {
    const std::uint32_t base = root(peers, d);
    if (base < 2) break;
    radices.assign(d, base);
    for (std::uint32_t& radix : radices) {
      if (product(radices) / radix * (radix + 1) <= peers) ++radix;
    }
    const std::uint64_t cells = product(radices);
    const std::uint64_t largest = (peers * radices.front() + cells - 1) / cells + (cells < peers ? 1 : 0);
    if (largest <= group_size_max) return radices;
  }
  // small groups and an awkward number: groups grow a little rather than values stay unmixed
  if (radices.empty()) radices = {static_cast<std::uint32_t>(peers)};
  return radices;
}

Result<> check_radices(std::span<const std::uint32_t> radices) {
  if (radices.empty() || radices.size() > kDimensionsMax) return Errc::bad_request;
  const auto bad = [](std::uint32_t radix) { return radix < 2 || radix > kGroupSizeMax; };
  if (std::any_of(radices.begin(), radices.end(), bad)) return Errc::bad_request;
  return {};
}

std::uint64_t dialled_per_cell(std::span<const std::uint32_t> radices, std::uint64_t dialled) {
  if (radices.size() < 2) return dialled;
  const std::uint64_t least = *std::min_element(radices.begin(), radices.end());
  return std::min(least, dialled * least / product(radices));  // the round of that dimension has the most cells
}

Result<std::vector<std::uint32_t>> parse_grid(std::string_view text) {
  std::vector<std::uint32_t> radices;
  if (text == "auto") return radices;
  for (std::string_view rest = text; !rest.empty();) {
    std::uint32_t radix = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), radix);
    if (error != std::errc()) return Errc::bad_request;
    radices.push_back(radix);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest.size() < 2 || rest.front() != 'x') return Errc::bad_request;
    rest.remove_prefix(1);
  }
  if (const auto good = check_radices(radices); !good) return good.error();
  return radices;
}

Seat seat_of(const PeerId& peer) noexcept {
  Seat seat = 0;
  for (std::size_t i = 0; i < sizeof(Seat); ++i) seat = seat << 8U | peer.key[i];
  return seat;
}

Schedule::Schedule(const Grid& grid, std::vector<PeerId> peers, std::uint64_t epoch, const std::vector<Seat>& clients)
    : peers_(std::move(peers)) {
  std::sort(peers_.begin(), peers_.end());
  std::vector<bool> only_dials;
  for (const PeerId& peer : peers_)
    only_dials.push_back(std::binary_search(clients.begin(), clients.end(), seat_of(peer)));
  std::vector<Place> now(peers_.size());
  const auto first = first_digits(grid, peers_, only_dials);
  for (std::size_t i = 0; i < peers_.size(); ++i) now[i].digits = first[i];
  for (std::uint32_t round = 1; round <= grid.rounds(); ++round) {
    places_.push_back(now);
    std::map<Digits, std::vector<std::size_t>> cells;  // each by id
    for (std::size_t i = 0; i < now.size(); ++i) cells[now[i].digits].push_back(i);
    Slots slots(grid, round, epoch);
    for (auto& [digits, members] : cells) {
      const auto clients_from =
          std::stable_partition(members.begin(), members.end(), [&](auto i) { return !only_dials[i]; });
      const auto dialled = static_cast<std::size_t>(clients_from - members.begin());
      const auto taken = slots.of(digits, members.size(), dialled);
      for (std::size_t i = 0; i < members.size(); ++i)
        move_on(now[members[i]].digits, now[members[i]].dropped, taken[i]);
    }
  }
}

std::optional<std::size_t> Schedule::index_of(const PeerId& peer) const {
  const auto before = [](const PeerId& one, Seat wanted) { return seat_of(one) < wanted; };
  const auto found = std::lower_bound(peers_.begin(), peers_.end(), seat_of(peer), before);
  if (found == peers_.end() || seat_of(*found) != seat_of(peer)) return std::nullopt;
  return static_cast<std::size_t>(found - peers_.begin());
}

const Digits& Schedule::digits(const PeerId& peer, std::uint32_t round) const {
  return places_.at(round - 1).at(index_of(peer).value()).digits;
}

std::uint32_t Schedule::dropped(const PeerId& peer, std::uint32_t round) const {
  return places_.at(round - 1).at(index_of(peer).value()).dropped;
}

std::vector<PeerId> Schedule::group(const PeerId& peer, std::uint32_t round) const {
  const Digits& mine = digits(peer, round);
  std::vector<PeerId> group;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (places_[round - 1][i].digits == mine) group.push_back(peers_[i]);
  return group;
}

std::vector<std::vector<PeerId>> Schedule::groups(std::uint32_t round) const {
  std::map<Digits, std::vector<PeerId>> by_digits;
  for (std::size_t i = 0; i < peers_.size(); ++i) by_digits[places_.at(round - 1)[i].digits].push_back(peers_[i]);
  std::vector<std::vector<PeerId>> groups;
  for (auto& [digits, group] : by_digits) groups.push_back(std::move(group));
  return groups;
}

std::string key_text(const std::string& bundle, const Grid& grid, const Digits& digits) {
  std::string key = bundle + "/" + to_hex(std::span(grid.id).first(4)) + "/";
  for (std::size_t i = 0; i < digits.size(); ++i) key += fmt::format("{}{}", i == 0 ? "" : ".", digits[i]);
  return key;
}

}  // namespace collab::matchmaking
