// Who sits on the grid, in pieces of anyone's making: refused, or a seating with exactly these pieces, from which every
// pass can be foreseen.
//
// The first byte: 0, the rest is pieces, each u16 bytes | the piece. Else the rest is u64 from | u8 radices | u8 each |
// u64 seats, sorted here, the odd ones of peers that only dial; so that the fuzzer need not find the hash that holds
// the pieces together.
#include "matchmaking/seating.hpp"
#include "support.hpp"

#include <algorithm>
#include <iterator>

namespace collab::fuzz::seating_target {

using namespace matchmaking;

void foresee(const Seating& seating) {
  if (seating.one_group() || seating.seats.empty() || seating.seats.size() > 64) return;
  const Schedule schedule = seating.schedule(seating.from, {});
  require(schedule.rounds() == seating.radices.size());
}

void check_pieces(const std::vector<Bytes>& pieces) {
  const auto seating = decode_seating(pieces);
  if (!seating) return;
  require(seating->seats.size() <= kSeatsMax);
  require(encode(*seating) == pieces);  // one seating has exactly one encoding
  foresee(*seating);
}

void check_records(const std::vector<Bytes>& pieces) {
  std::vector<directory::Record> records;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    directory::Record record;
    record.subkey = seating_subkey(i % 3 == 2 ? 1 : 0, i - i / 3);
    record.value = pieces[i];
    records.push_back(std::move(record));
  }
  for (const auto& [owner, seatings] : read_seatings(records)) require(seatings.size() <= 2);
}

void check_made(fuzz::Input input) {
  Seating seating;
  seating.from = input.number<std::uint64_t>();
  for (auto radices = input.number<std::uint8_t>() % (kDimensionsMax + 1); radices > 0; --radices)
    seating.radices.push_back(2U + input.number<std::uint8_t>() % std::uint32_t(kGroupSizeMax - 1));
  while (seating.radices.size() > 1 && !input.empty() && seating.seats.size() < kSeatsMax)
    seating.seats.push_back(input.number<std::uint64_t>());
  if (seating.radices.empty()) return;
  std::sort(seating.seats.begin(), seating.seats.end());
  seating.seats.erase(std::unique(seating.seats.begin(), seating.seats.end()), seating.seats.end());
  if (!seating.one_group() && !can_seat(seating.radices, seating.seats.size())) return;
  std::copy_if(seating.seats.begin(), seating.seats.end(), std::back_inserter(seating.clients),
               [](Seat seat) { return seat % 2 == 1; });
  const std::vector<Bytes> pieces = encode(seating);
  require(decode_seating(pieces).value() == seating);
  for (const Bytes& piece : pieces) require(piece.size() <= directory::kValueBytesMax);
  foresee(seating);
}

COLLAB_FUZZ_TARGET(seating) {
  fuzz::Input input(fuzz::bytes_of(data, size));
  if (input.number<std::uint8_t>() != 0) {
    check_made(input);
    return 0;
  }
  std::vector<Bytes> pieces;
  while (!input.empty() && pieces.size() < 64) {
    const auto piece = input.piece();
    pieces.emplace_back(piece.begin(), piece.end());
  }
  const fuzz::AllocationBound bound(16 * size + 65'536);
  check_pieces(pieces);
  check_records(pieces);
  return 0;
}

}  // namespace collab::fuzz::seating_target
