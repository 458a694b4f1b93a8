// Questions for dial-backs and their answers come from strangers: any bytes decode or are refused.
#include "base/frame.hpp"
#include "nat/wire.hpp"
#include "support.hpp"

#include <cstdlib>

namespace collab::fuzz::nat_wire_target {

COLLAB_FUZZ_TARGET(nat_wire) {
  const auto message = frame::decode<nat::wire::Header>(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  const Frame again = frame::encode(message->header, message->payload);
  const auto back = frame::decode<nat::wire::Header>(*again);
  if (!back || back->header.index() != message->header.index()) std::abort();
  return 0;
}

}  // namespace collab::fuzz::nat_wire_target
