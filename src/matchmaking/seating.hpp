#pragma once
// Who sits on the grid, from which epoch on. A pass leaves equal bytes on all peers only when all of them foresee it
// from one list; each peer's own view of who is there differs while somebody comes or goes. So one of them writes the
// list down, early enough for all to read it.

#include "directory/record.hpp"
#include "matchmaking/group_key.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace collab::matchmaking {

inline constexpr std::string_view kSeatingKey = "grid";  ///< of the directory
/// Under the same key, of any value: its owner is an auxiliary, and leads cells in which nobody can be dialled.
inline constexpr std::string_view kAuxiliarySubkey = "auxiliary";
inline constexpr std::size_t kSeatsMax = 3360;  ///< two lists of more do not fit what one owner may publish

struct Seating {
  std::uint64_t from = 0;              ///< its first epoch
  std::uint32_t revision = 0;          ///< of several for one epoch the highest counts: passes on the others failed
  std::vector<std::uint32_t> radices;  ///< one: everybody is in one group of so many at most, whoever sits where
  std::vector<Seat> seats;             ///< ascending, no two alike; none with one radix
  std::vector<Seat> clients = {};      ///< those of them who only dial, ascending

  bool one_group() const noexcept { return radices.size() < 2; }
  bool has(const PeerId& peer) const;
  Grid grid() const;  ///< its id is a hash of all of this
  /// Of a pass of `epoch`. Ids of `known` peers are whole; of others only the seat is known, and the rest is zero.
  Schedule schedule(std::uint64_t epoch, const std::vector<PeerId>& known) const;
  bool operator==(const Seating&) const = default;
};

/// `radices` as check_radices wants them, and at most kSeatsMax seats, which fill them (can_seat). In pieces that each
/// fit a record's value.
std::vector<Bytes> encode(const Seating& seating);
/// From pieces in their order, of anyone's making. Errors: `bad_request`.
Result<Seating> decode_seating(const std::vector<Bytes>& pieces);

/// A writer keeps the seating in force and the next one under two names, so that newcomers can read both.
std::string seating_subkey(unsigned slot, std::size_t piece);
/// The whole ones among records under kSeatingKey. What is not whole, or not decoded, is left out.
std::map<PeerId, std::vector<Seating>> read_seatings(const std::vector<directory::Record>& records);

/// Of two for the same epoch and revision: whose writer has the smaller place in that epoch. Pure, so all choose alike.
bool goes_before(const PeerId& writer, const PeerId& other, std::uint64_t from);

/// Whether so many peers fill every cell of such a grid, and no group is larger than kGroupSizeMax. Where a cell is
/// empty, values of some never come to others, and groups end with different bytes.
bool can_seat(const std::vector<std::uint32_t>& radices, std::uint64_t peers);

/// The radices for `peers` peers, of whom `dialled` can be dialled, when `present` ones are in use. Those of
/// radices_for, where they give each cell two who can be dialled; else groups grow, up to kGroupSizeMax and to one
/// group of everybody, for the sake of two in each, or at least one. Where nothing gives that, those of radices_for
/// when the swarm is `helped`: auxiliaries lead cells that have nobody else. Else one group that holds most, and of too
/// many for that, those of radices_for. The present ones stay for as long as every cell is filled and has somebody who
/// leads it, at most a quarter of the peers are surplus, and groups are as large as they may be.
std::vector<std::uint32_t> follow_radices(const std::vector<std::uint32_t>& present, std::uint64_t peers,
                                          std::uint64_t dialled, std::size_t group_size_max, bool helped = false);

}  // namespace collab::matchmaking
