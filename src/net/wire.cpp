#include "net/wire.hpp"

#include "base/frame.hpp"

#include <utility>

namespace collab::net {
namespace {

template <class Number>
void store(std::byte* at, Number value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t load(const std::byte* at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint32_t>(at[i]) << (8 * i);
  return value;
}

constexpr std::size_t kHeadBytes = 128;  // of most; msgpack would begin with 8 kB

/// How an OpenTopic of no occasion is written.
struct WithoutOccasion {
  std::string protocol;
  Digest topic{};
  std::uint32_t size = 0;
  MESSAGE_MAP(protocol, topic, size)
};

WithoutOccasion without_occasion(const OpenTopic& open) {
  return {open.protocol, open.topic, open.size};
}

Bytes to_bytes(const msgpack::sbuffer& buffer) {
  const auto bytes = std::as_bytes(std::span(buffer.data(), buffer.size()));
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace

std::array<std::byte, kPrefixBytes> encode(const Prefix& prefix) {
  std::array<std::byte, kPrefixBytes> bytes{};
  store(bytes.data(), prefix.body_bytes, 3);
  bytes[3] = std::byte(prefix.type);
  store(bytes.data() + 4, prefix.stream, 4);
  store(bytes.data() + 8, prefix.head_bytes, 2);
  bytes[10] = std::byte(prefix.flags);
  bytes[11] = std::byte(prefix.traffic);
  return bytes;
}

Prefix decode_prefix(std::span<const std::byte, kPrefixBytes> bytes) {
  Prefix prefix;
  prefix.body_bytes = load(bytes.data(), 3);
  prefix.type = std::to_integer<std::uint8_t>(bytes[3]);
  prefix.stream = load(bytes.data() + 4, 4);
  prefix.head_bytes = static_cast<std::uint16_t>(load(bytes.data() + 8, 2));
  prefix.flags = std::to_integer<std::uint8_t>(bytes[10]);
  prefix.traffic = std::to_integer<std::uint8_t>(bytes[11]);
  return prefix;
}

template <class Head>
Bytes encode_head(const Head& head) {
  msgpack::sbuffer buffer(kHeadBytes);
  msgpack::pack(buffer, head);
  return to_bytes(buffer);
}

template <class Head>
Result<Head> decode_head(std::span<const std::byte> bytes) {
  try {
    msgpack::zone zone(frame::detail::kZoneBytes);
    return frame::detail::unpack(bytes, zone).as<Head>();
  } catch (const std::exception&) {  // msgpack reports bad input by throwing; it stops here
    return Errc::bad_request;
  }
}

template Bytes encode_head(const Hello&);
template Result<Hello> decode_head(std::span<const std::byte>);
template Bytes encode_head(const Refuse&);
template Result<Refuse> decode_head(std::span<const std::byte>);
template Bytes encode_head(const DataHead&);
template Result<DataHead> decode_head(std::span<const std::byte>);
template Bytes encode_head(const ResetHead&);
template Result<ResetHead> decode_head(std::span<const std::byte>);
template Bytes encode_head(const CreditHead&);
template Result<CreditHead> decode_head(std::span<const std::byte>);
template Bytes encode_head(const PingHead&);
template Result<PingHead> decode_head(std::span<const std::byte>);
template Bytes encode_head(const GoawayHead&);
template Result<GoawayHead> decode_head(std::span<const std::byte>);

Bytes encode_open(const OpenHead& head) {
  msgpack::sbuffer buffer(kHeadBytes);
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  packer.pack_array(2).pack(head.index());
  const auto* topic = std::get_if<OpenTopic>(&head);
  if (topic != nullptr && topic->occasion == Digest{}) {
    packer.pack(without_occasion(*topic));
  } else {
    std::visit([&](const auto& open) { packer.pack(open); }, head);
  }
  return to_bytes(buffer);
}

Result<OpenHead> decode_open(std::span<const std::byte> bytes) {
  try {
    msgpack::zone zone(frame::detail::kZoneBytes);
    const auto [type, body] = frame::detail::unpack(bytes, zone).as<std::pair<std::uint32_t, msgpack::object>>();
    if (type == 0) return body.as<OpenCall>();
    if (type == 1) return body.as<OpenTopic>();
  } catch (const std::exception&) {  // msgpack reports bad input by throwing; it stops here
  }
  return Errc::bad_request;
}

}  // namespace collab::net
