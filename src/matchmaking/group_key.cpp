#include "matchmaking/group_key.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
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

std::vector<Digits> first_digits(const Grid& grid, std::span<const PeerId> peers) {
  std::vector<std::pair<Digest, std::size_t>> places;
  for (std::size_t i = 0; i < peers.size(); ++i)
    places.emplace_back(Hasher("collab grid place").add(grid.id).add(peers[i].key).finish(), i);
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

std::uint32_t slot_of(const Grid& grid, const Group& group, std::size_t rank) {
  assert(group.round >= 1 && group.round <= grid.rounds() && rank < group.roster.size());
  const std::uint32_t radix = grid.radices[group.round - 1];
  if (rank < radix) return static_cast<std::uint32_t>(rank);
  return static_cast<std::uint32_t>((rank + number(group.id) % radix) % radix);  // else the first cells get them all
}

std::uint32_t slot_without_group(const Grid& grid, const PeerId& peer, std::uint64_t epoch, std::uint32_t round) {
  assert(round >= 1 && round <= grid.rounds());
  const Digest digest = Hasher("collab grid slot").add(peer.key).add(epoch).add(std::uint64_t(round)).finish();
  return static_cast<std::uint32_t>(number(digest) % grid.radices[round - 1]);
}

Moved advance(Digits digits, std::uint32_t slot) {
  if (digits.empty()) return {};
  Moved moved;
  moved.dropped = digits.front();
  digits.erase(digits.begin());
  digits.push_back(slot);
  moved.digits = std::move(digits);
  return moved;
}

std::string key_text(const std::string& bundle, const Grid& grid, const Digits& digits) {
  std::string key = bundle + "/" + to_hex(std::span(grid.id).first(4)) + "/";
  for (std::size_t i = 0; i < digits.size(); ++i) key += fmt::format("{}{}", i == 0 ? "" : ".", digits[i]);
  return key;
}

}  // namespace collab::matchmaking
