#include "matchmaking/seating.hpp"

#include "crypto/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

namespace collab::matchmaking {
namespace {

constexpr std::size_t kHeaderBytes = 8 + 4 + 1 + 4 * kDimensionsMax + 4 + 2 + 32;
constexpr std::size_t kBitsPerByte = 8;
constexpr std::size_t kSeatsPerPiece =  // a bit for each says who only dials
    (directory::kValueBytesMax - kHeaderBytes) * kBitsPerByte / (sizeof(Seat) * kBitsPerByte + 1) / kBitsPerByte *
    kBitsPerByte;
constexpr std::uint64_t kDialledEach = 2;            // in a cell: one may go
constexpr std::size_t kLentMax = kGroupSizeMax - 2;  // of a cell that auxiliaries lead, for they need room, too
constexpr std::size_t kPiecesMax = (kSeatsMax + kSeatsPerPiece - 1) / kSeatsPerPiece;
constexpr unsigned kSlots = 2;

Digest id_of(const Seating& seating) {
  Hasher hasher("collab grid");
  hasher.add(seating.from).add(std::uint64_t(seating.revision));
  for (const std::uint32_t radix : seating.radices) hasher.add(std::uint64_t(radix));
  for (const Seat seat : seating.seats) hasher.add(seat);
  for (const Seat seat : seating.clients) hasher.add(seat);
  return hasher.finish();
}

/// One piece, before it is known whether the others fit.
struct Piece {
  Seating seating;  // with the seats of this piece only
  std::uint32_t seats = 0;
  std::size_t index = 0;
  Digest id{};
};

Result<Piece> decode_piece(std::span<const std::byte> bytes) {
  FieldReader reader(bytes);
  Piece piece;
  piece.seating.from = reader.take<std::uint64_t>();
  piece.seating.revision = reader.take<std::uint32_t>();
  const auto radices = reader.take<std::uint8_t>();
  if (radices > kDimensionsMax) return Errc::bad_request;
  for (std::size_t i = 0; i < radices; ++i) piece.seating.radices.push_back(reader.take<std::uint32_t>());
  piece.seats = reader.take<std::uint32_t>();
  piece.index = reader.take<std::uint16_t>();
  const auto id = reader.take_raw(sizeof(Digest));
  if (piece.seats > kSeatsMax || piece.index >= kPiecesMax || id.size() != sizeof(Digest)) return Errc::bad_request;
  std::transform(id.begin(), id.end(), piece.id.begin(), [](std::byte b) { return static_cast<unsigned char>(b); });
  const std::size_t before = piece.index * kSeatsPerPiece;
  if (before > piece.seats) return Errc::bad_request;
  const std::size_t here = std::min<std::size_t>(kSeatsPerPiece, piece.seats - before);
  auto& seats = piece.seating.seats;
  for (std::size_t i = 0; i < here; ++i) seats.push_back(reader.take<std::uint64_t>());
  for (std::size_t i = 0; i < here; i += kBitsPerByte) {
    const auto bits = reader.take<std::uint8_t>();
    for (std::size_t bit = 0; bit < kBitsPerByte; ++bit) {
      if ((bits >> bit & 1U) == 0) continue;
      if (i + bit >= here) return Errc::bad_request;
      piece.seating.clients.push_back(seats[i + bit]);
    }
  }
  if (const auto whole = reader.finish(); !whole) return whole.error();
  return piece;
}

std::size_t pieces_for(std::size_t seats) {
  return std::max<std::size_t>(1, (seats + kSeatsPerPiece - 1) / kSeatsPerPiece);
}

bool well_formed(const Seating& seating) {
  if (!check_radices(seating.radices)) return false;
  if (seating.one_group()) return seating.seats.empty() && seating.clients.empty();
  const auto rises = [](const std::vector<Seat>& seats) {
    return std::adjacent_find(seats.begin(), seats.end(), std::greater_equal<>()) == seats.end();
  };
  if (!can_seat(seating.radices, seating.seats.size()) || !rises(seating.seats) || !rises(seating.clients))
    return false;
  return std::includes(seating.seats.begin(), seating.seats.end(), seating.clients.begin(), seating.clients.end());
}

/// Of some seats, a bit each for who is in `clients`.
Bytes bits_of(std::span<const Seat> seats, const std::vector<Seat>& clients) {
  Bytes bits((seats.size() + kBitsPerByte - 1) / kBitsPerByte);
  for (std::size_t i = 0; i < seats.size(); ++i)
    if (std::binary_search(clients.begin(), clients.end(), seats[i]))
      bits[i / kBitsPerByte] |= std::byte(1U << i % kBitsPerByte);
  return bits;
}

/// The whole id where it is known, else the seat and zeros.
PeerId whole_id(Seat seat, const std::map<Seat, PeerId>& known) {
  const auto found = known.find(seat);
  if (found != known.end()) return found->second;
  PeerId id;
  for (std::size_t i = 0; i < sizeof(Seat); ++i) id.key[i] = static_cast<unsigned char>(seat >> (8 * (7 - i)));
  return id;
}

std::uint64_t product(const std::vector<std::uint32_t>& radices) {
  std::uint64_t cells = 1;
  for (const std::uint32_t radix : radices) cells *= radix;
  return cells;
}

std::uint64_t largest_group(const std::vector<std::uint32_t>& radices, std::uint64_t peers) {
  const std::uint64_t cells = product(radices);
  const std::uint64_t largest = (peers * *std::max_element(radices.begin(), radices.end()) + cells - 1) / cells;
  return largest + (cells < peers ? 1 : 0);
}

/// Whether every cell is filled, and few are surplus.
bool still_filled(const std::vector<std::uint32_t>& radices, std::uint64_t peers) {
  return can_seat(radices, peers) && 4 * peers <= 5 * product(radices);
}

}  // namespace

bool Seating::has(const PeerId& peer) const {
  return std::binary_search(seats.begin(), seats.end(), seat_of(peer));
}

Grid Seating::grid() const {
  return {id_of(*this), radices};
}

Schedule Seating::schedule(std::uint64_t epoch, const std::vector<PeerId>& known) const {
  std::map<Seat, PeerId> by_seat;
  for (const PeerId& peer : known) by_seat.emplace(seat_of(peer), peer);
  std::vector<PeerId> peers;
  for (const Seat seat : seats) peers.push_back(whole_id(seat, by_seat));
  return {grid(), std::move(peers), epoch, clients};
}

std::vector<Bytes> encode(const Seating& seating) {
  assert(well_formed(seating) && seating.seats.size() <= kSeatsMax);
  const Digest id = id_of(seating);
  std::vector<Bytes> pieces;
  for (std::size_t index = 0; index < pieces_for(seating.seats.size()); ++index) {
    FieldWriter writer;
    writer.add(seating.from).add(seating.revision).add(static_cast<std::uint8_t>(seating.radices.size()));
    for (const std::uint32_t radix : seating.radices) writer.add(radix);
    writer.add(static_cast<std::uint32_t>(seating.seats.size())).add(static_cast<std::uint16_t>(index));
    writer.add_raw(std::as_bytes(std::span(id)));
    const std::size_t end = std::min(seating.seats.size(), (index + 1) * kSeatsPerPiece);
    const auto here = std::span(seating.seats).subspan(index * kSeatsPerPiece, end - index * kSeatsPerPiece);
    for (const Seat seat : here) writer.add(seat);
    writer.add_raw(bits_of(here, seating.clients));
    pieces.push_back(writer.finish());
  }
  return pieces;
}

Result<Seating> decode_seating(const std::vector<Bytes>& pieces) {
  if (pieces.empty() || pieces.size() > kPiecesMax) return Errc::bad_request;
  Seating whole;
  Digest id{};
  std::size_t seats_told = 0;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    auto piece = decode_piece(pieces[index]);
    if (!piece) return piece.error();
    if (piece->index != index || pieces.size() != pieces_for(piece->seats)) return Errc::bad_request;
    if (index == 0) {
      whole = std::move(piece->seating);
      id = piece->id;
      seats_told = piece->seats;
    } else {
      const bool same = piece->seating.from == whole.from && piece->seating.revision == whole.revision &&
                        piece->seating.radices == whole.radices;
      if (!same || piece->id != id || piece->seats != seats_told) return Errc::bad_request;
      const Seating& more = piece->seating;
      whole.seats.insert(whole.seats.end(), more.seats.begin(), more.seats.end());
      whole.clients.insert(whole.clients.end(), more.clients.begin(), more.clients.end());
    }
  }
  if (!well_formed(whole) || id_of(whole) != id) return Errc::bad_request;
  return whole;
}

std::string seating_subkey(unsigned slot, std::size_t piece) {
  assert(slot < kSlots);
  return fmt::format("{}{:02}", slot == 0 ? 'a' : 'b', piece);
}

std::map<PeerId, std::vector<Seating>> read_seatings(const std::vector<directory::Record>& records) {
  std::map<PeerId, std::map<std::string, Bytes>> by_owner;
  for (const directory::Record& record : records) by_owner[record.owner][record.subkey] = record.value;
  std::map<PeerId, std::vector<Seating>> whole;
  for (const auto& [owner, values] : by_owner) {
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      std::vector<Bytes> pieces;
      for (std::size_t i = 0; i < kPiecesMax; ++i) {
        const auto found = values.find(seating_subkey(slot, i));
        if (found == values.end()) break;
        pieces.push_back(found->second);
      }
      // a shorter seating leaves pieces of the longer one before it behind it, until they expire
      if (!pieces.empty()) {
        const auto first = decode_piece(pieces.front());
        if (first) pieces.resize(std::min(pieces.size(), pieces_for(first->seats)));
      }
      auto seating = decode_seating(pieces);
      if (seating) whole[owner].push_back(std::move(*seating));
    }
  }
  return whole;
}

bool goes_before(const PeerId& writer, const PeerId& other, std::uint64_t from) {
  const auto place = [from](const PeerId& peer) {
    return Hasher("collab grid writer").add(from).add(peer.key).finish();
  };
  return place(writer) < place(other);
}

bool can_seat(const std::vector<std::uint32_t>& radices, std::uint64_t peers) {
  return product(radices) <= peers && largest_group(radices, peers) <= kGroupSizeMax;
}

std::vector<std::uint32_t> follow_radices(const std::vector<std::uint32_t>& present, std::uint64_t peers,
                                          std::uint64_t dialled, std::size_t group_size_max, bool helped) {
  const auto usual = radices_for(peers, group_size_max);
  if (usual.size() < 2) return usual;
  const bool lent = helped && peers > kGroupSizeMax;
  const bool led = present.size() >= 2 &&
                   (dialled_per_cell(present, dialled) > 0 || (lent && largest_group(present, peers) <= kLentMax));
  if (led && still_filled(present, peers)) {
    // larger groups than usual stay until the usual ones are safe, or each peer that changes would change them all
    const bool grown = largest_group(present, peers) > group_size_max;
    if (!grown || dialled_per_cell(usual, dialled) < kDialledEach) return present;
  }
  const std::vector<std::uint32_t> one_group = {static_cast<std::uint32_t>(kGroupSizeMax)};
  for (std::uint64_t each = kDialledEach; each > 0; --each) {
    for (std::size_t size_max = group_size_max; size_max <= kGroupSizeMax; ++size_max) {
      auto radices = radices_for(peers, size_max);
      if (radices.size() < 2) return one_group;  // whoever there is who can lead it
      if (dialled_per_cell(radices, dialled) >= each) return radices;
    }
  }
  if (lent) return radices_for(peers, std::min(group_size_max, kLentMax));
  return peers < 2 * kGroupSizeMax ? one_group : usual;  // more than half of them are a quorum
}

}  // namespace collab::matchmaking
