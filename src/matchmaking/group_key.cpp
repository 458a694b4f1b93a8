#include "matchmaking/group_key.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <map>
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

/// Rank in the list sorted by H(grid id, seat), written in the radices of dimensions 2 to d.
std::vector<Digits> first_digits(const Grid& grid, std::span<const PeerId> peers) {
  std::vector<std::pair<Digest, std::size_t>> places;
  for (std::size_t i = 0; i < peers.size(); ++i)
    places.emplace_back(Hasher("collab grid place").add(grid.id).add(seat_of(peers[i])).finish(), i);
  std::sort(places.begin(), places.end());
  std::vector<Digits> digits(peers.size());
  for (std::size_t place = 0; place < places.size(); ++place) {
    std::uint64_t rest = place;
    for (std::size_t k = 1; k < grid.radices.size(); ++k) {
      digits[places[place].second].push_back(static_cast<std::uint32_t>(rest % grid.radices[k]));
      rest /= grid.radices[k];
    }
  }
  return digits;
}

/// The slot in the dimension of `round` of the peer at `position` of a cell. Surplus peers begin at a slot of the
/// cell's own, or the first columns would get them all.
std::uint32_t slot_at(const Grid& grid, const Digits& digits, std::uint32_t round, std::uint64_t epoch,
                      std::uint64_t position) {
  const std::uint32_t radix = grid.radices[round - 1];
  if (position < radix) return static_cast<std::uint32_t>(position);
  Hasher hasher("collab grid surplus");
  hasher.add(grid.id).add(epoch).add(std::uint64_t(round));
  for (const std::uint32_t digit : digits) hasher.add(std::uint64_t(digit));
  return static_cast<std::uint32_t>((position + number(hasher.finish()) % radix) % radix);
}

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
  return radices;
}

Result<> check_radices(std::span<const std::uint32_t> radices) {
  if (radices.empty() || radices.size() > kDimensionsMax) return Errc::bad_request;
  const auto bad = [](std::uint32_t radix) { return radix < 2 || radix > kGroupSizeMax; };
  if (std::any_of(radices.begin(), radices.end(), bad)) return Errc::bad_request;
  return {};
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

Schedule::Schedule(const Grid& grid, std::vector<PeerId> peers, std::uint64_t epoch) : peers_(std::move(peers)) {
  std::sort(peers_.begin(), peers_.end());
  std::vector<Place> now(peers_.size());
  const auto first = first_digits(grid, peers_);
  for (std::size_t i = 0; i < peers_.size(); ++i) now[i].digits = first[i];
  for (std::uint32_t round = 1; round <= grid.rounds(); ++round) {
    places_.push_back(now);
    std::map<Digits, std::uint64_t> seated;
    for (Place& place : now) {  // by id within each cell
      const std::uint64_t position = seated[place.digits]++;
      move_on(place.digits, place.dropped, slot_at(grid, place.digits, round, epoch, position));
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

std::string key_text(const std::string& bundle, const Grid& grid, const Digits& digits) {
  std::string key = bundle + "/" + to_hex(std::span(grid.id).first(4)) + "/";
  for (std::size_t i = 0; i < digits.size(); ++i) key += fmt::format("{}{}", i == 0 ? "" : ".", digits[i]);
  return key;
}

}  // namespace collab::matchmaking
