// Any bytes as a message of who leaves, or of its heir: a question is of the form that the rest relies on, or refused.
#include "base/frame.hpp"
#include "epoch/wire.hpp"
#include "support.hpp"

namespace collab::fuzz::epoch_wire_target {

COLLAB_FUZZ_TARGET(epoch_wire) {
  const auto bytes = fuzz::bytes_of(data, size);
  (void)frame::decode<epoch::wire::Message>(bytes);
  const auto asked = epoch::wire::read_ask(bytes);
  if (!asked) return 0;
  require(asked->ask.samples > 0 && asked->work.count() <= asked->ask.samples);
  require(asked->work.ranges().size() == asked->ask.work.size() && asked->ask.work.size() <= kWorkRangesMax);
  const auto again = epoch::wire::read_ask(*frame::encode(epoch::wire::Message(asked->ask)));
  require(again && again->work == asked->work);
  const PeerId one{{1}};
  const PeerId other{{2}};
  const auto topic = epoch::wire::topic_of(asked->ask, one, other);
  require(topic == epoch::wire::topic_of(again->ask, one, other));
  require(topic != epoch::wire::topic_of(asked->ask, other, one));
  return 0;
}

}  // namespace collab::fuzz::epoch_wire_target
