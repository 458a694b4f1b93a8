#include "directory/wire.hpp"

#include "crypto/fields.hpp"
#include "directory/peer_record.hpp"

#include <algorithm>
#include <cstring>

namespace collab::directory::wire {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kVersionBytes = sizeof(SlotId) + 8 + 8;

SlotId slot_from(std::span<const std::byte> bytes) {
  SlotId slot{};
  std::transform(bytes.begin(), bytes.end(), slot.begin(), [](std::byte b) { return static_cast<unsigned char>(b); });
  return slot;
}

}  // namespace

Bytes pack_records(std::span<const SignedRecord* const> records) {
  FieldWriter fields;
  for (const SignedRecord* record : records) fields.add_blob(encode(*record));
  return fields.finish();
}

Bytes pack_records(std::span<const std::span<const std::byte>> encoded) {
  std::size_t bytes = 0;
  for (const auto record : encoded) bytes += kLengthBytes + record.size();
  FieldWriter fields(bytes);
  for (const auto record : encoded) fields.add_blob(record);
  return fields.finish();
}

Bytes pack_versions(std::span<const Version> versions) {
  FieldWriter fields;
  for (const Version& version : versions) {
    fields.add_raw(std::as_bytes(std::span(version.slot)));
    fields.add(version.sequence).add(static_cast<std::uint64_t>(version.expires_ms));
  }
  return fields.finish();
}

Bytes pack_slots(std::span<const SlotId> slots) {
  FieldWriter fields;
  for (const SlotId& slot : slots) fields.add_raw(std::as_bytes(std::span(slot)));
  return fields.finish();
}

Bytes pack_marks(std::span<const Mark> marks) {
  FieldWriter fields(marks.size_bytes());
  for (const Mark mark : marks) fields.add(mark);
  return fields.finish();
}

Bytes pack_nodes(std::span<const RouteNode* const> nodes) {
  FieldWriter fields;
  for (const RouteNode* node : nodes) {
    fields.add_raw(std::as_bytes(std::span(node->id.key)));
    fields.add(static_cast<std::uint8_t>(node->addresses.size()));
    for (const net::Address& address : node->addresses) fields.add_text(net::to_string(address));
  }
  return fields.finish();
}

Result<std::vector<std::span<const std::byte>>> take_encoded(std::span<const std::byte>& payload, std::size_t count) {
  std::vector<std::span<const std::byte>> records;
  for (std::size_t i = 0; i < count; ++i) {
    if (payload.size() < kLengthBytes) return Errc::bad_request;
    FieldReader prefix(payload.first(kLengthBytes));
    const std::size_t length = prefix.take<std::uint32_t>();
    payload = payload.subspan(kLengthBytes);
    if (length > payload.size()) return Errc::bad_request;
    records.push_back(payload.first(length));
    payload = payload.subspan(length);
  }
  return records;
}

Result<std::vector<SignedRecord>> take_records(std::span<const std::byte>& payload, std::size_t count) {
  const auto encoded = take_encoded(payload, count);
  if (!encoded) return encoded.error();
  std::vector<SignedRecord> records;
  for (const auto bytes : *encoded) {
    auto record = decode_record(bytes);
    if (!record) return record.error();
    records.push_back(std::move(*record));
  }
  return records;
}

Result<std::vector<RouteNode>> take_nodes(std::span<const std::byte>& payload, std::size_t count) {
  constexpr std::size_t kHeadBytes = sizeof(PeerId::key) + 1;
  std::vector<RouteNode> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    if (payload.size() < kHeadBytes) return Errc::bad_request;
    RouteNode node;
    std::memcpy(node.id.key.data(), payload.data(), node.id.key.size());
    const auto addresses = std::to_integer<std::size_t>(payload[node.id.key.size()]);
    if (addresses == 0 || addresses > kListenAddressesMax) return Errc::bad_request;
    payload = payload.subspan(kHeadBytes);
    for (std::size_t k = 0; k < addresses; ++k) {
      const std::size_t length = payload.empty() ? 0 : std::to_integer<std::size_t>(payload.front());
      if (payload.size() <= length) return Errc::bad_request;
      auto address = net::parse_numeric_address({reinterpret_cast<const char*>(payload.data()) + 1, length});
      if (!address) return Errc::bad_request;
      node.addresses.push_back(std::move(*address));
      payload = payload.subspan(1 + length);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<std::vector<Version>> unpack_versions(std::span<const std::byte> payload, std::size_t count) {
  if (count > payload.size() || payload.size() != count * kVersionBytes) return Errc::bad_request;
  std::vector<Version> versions;
  versions.reserve(count);
  FieldReader fields(payload);
  for (std::size_t i = 0; i < count; ++i) {
    Version version;
    version.slot = slot_from(fields.take_raw(sizeof(SlotId)));
    version.sequence = fields.take<std::uint64_t>();
    version.expires_ms = static_cast<std::int64_t>(fields.take<std::uint64_t>());
    versions.push_back(version);
  }
  return versions;
}

Result<std::vector<Mark>> unpack_marks(std::span<const std::byte> packed) {
  const std::size_t count = packed.size() / sizeof(Mark);
  if (packed.size() % sizeof(Mark) != 0 || count > kKnownMax) return Errc::bad_request;
  FieldReader fields(packed);
  std::vector<Mark> marks(count);
  for (Mark& mark : marks) mark = fields.take<Mark>();
  std::sort(marks.begin(), marks.end());
  return marks;
}

Result<std::vector<SlotId>> unpack_slots(std::span<const std::byte> payload, std::size_t count) {
  if (count > payload.size() || payload.size() != count * sizeof(SlotId)) return Errc::bad_request;
  std::vector<SlotId> slots;
  slots.reserve(count);
  for (; !payload.empty(); payload = payload.subspan(sizeof(SlotId))) {
    slots.push_back(slot_from(payload.first(sizeof(SlotId))));
  }
  return slots;
}

}  // namespace collab::directory::wire
