// Any bytes as a message of the state protocol: an index is whole and within bounds, or refused; never a crash.
#include "base/frame.hpp"
#include "state/wire.hpp"
#include "support.hpp"

#include <cstdlib>

namespace collab::fuzz::state_wire_target {

COLLAB_FUZZ_TARGET(state_wire) {
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)frame::decode<state::wire::Message>(bytes);  // what a donor does with a request
  for (const std::size_t chunks : {std::size_t(3), std::size_t(61)})
    if (const auto have = state::wire::read_have(bytes, chunks); have && have->size() != chunks) std::abort();
  const auto shown = state::wire::read_index(bytes);
  if (!shown) return 0;
  if (shown->sharers.size() > state::wire::kSharersMax) std::abort();
  const state::Index* index = &shown->index;
  if (index->bytes() > state::kIndexedBytesMax) std::abort();
  for (std::size_t chunk = 0; chunk < index->chunks(); ++chunk) {
    const auto place = index->place(chunk);
    if (place.bytes == 0 || place.offset + place.bytes > index->sections[place.section].bytes) std::abort();
  }
  const auto again = state::wire::read_index(*state::wire::show(*index, shown->sharers));
  if (!again || again->index != *index || again->sharers != shown->sharers) std::abort();
  return 0;
}

}  // namespace collab::fuzz::state_wire_target
