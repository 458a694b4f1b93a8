// Words about punching come from strangers: any bytes decode or are refused.
#include "base/frame.hpp"
#include "nat/punch_wire.hpp"
#include "support.hpp"

namespace collab::fuzz::punch_wire_target {

template <class Header>
void read_and_write(std::span<const std::byte> bytes) {
  const auto message = frame::decode<Header>(bytes);
  if (!message) return;
  const Frame again = frame::encode(message->header, message->payload);
  const auto back = frame::decode<Header>(*again);
  require(back && back->header.index() == message->header.index() && back->payload.size() == message->payload.size());
}

COLLAB_FUZZ_TARGET(punch_wire) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_and_write<nat::wire::PunchHeader>(bytes);
  return 0;
}

}  // namespace collab::fuzz::punch_wire_target
