// What peers tell dashboards: any bytes are refused or shown, and what is shown could have been told.
#include "monitor/wire.hpp"
#include "support.hpp"

#include <cstdlib>

namespace collab::fuzz::monitor_wire_target {

COLLAB_FUZZ_TARGET(monitor_wire) {
  using namespace monitor;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto evaluation = decode_evaluation(bytes)) {
    const auto again = decode_evaluation(encode_evaluation(*evaluation));
    if (!again || again->epoch != evaluation->epoch) std::abort();
  }
  const auto round = decode_round(bytes);
  if (!round) return 0;
  if (round->members.size() > kRoundMembersMax || round->reason.size() > kReasonBytesMax) std::abort();
  const auto value = encode_round(*round);
  if (!value) return 0;  // more than a record holds
  const auto again = decode_round(*value);
  if (!again || again->epoch != round->epoch || again->members.size() != round->members.size()) std::abort();
  for (std::size_t i = 0; i < round->members.size(); ++i) {
    const RoundMember& one = round->members[i];
    const RoundMember& other = again->members[i];
    if (one.id != other.id || one.samples != other.samples || one.left_out != other.left_out ||
        one.counted != other.counted)
      std::abort();
  }
  return 0;
}

}  // namespace collab::fuzz::monitor_wire_target
