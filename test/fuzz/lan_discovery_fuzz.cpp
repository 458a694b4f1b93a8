// Datagrams of the local network: any bytes are refused, or are a question or an answer with exactly this encoding.
#include "node/lan_discovery.hpp"
#include "support.hpp"

#include <algorithm>

namespace collab::fuzz::lan_discovery_target {

COLLAB_FUZZ_TARGET(lan_discovery) {
  const auto datagram = fuzz::bytes_of(data, size);
  const auto question = node::decode_lan_question(datagram);
  const auto answer = node::decode_lan_answer(datagram);
  fuzz::require(!question || !answer);
  if (question) {
    fuzz::require(node::is_run_id(*question));
    fuzz::require(std::ranges::equal(node::encode_lan_question(*question), datagram));
  }
  if (answer) {
    fuzz::require(node::is_run_id(answer->run_id) && answer->port != 0);
    fuzz::require(std::ranges::equal(node::encode(*answer), datagram));
  }
  return 0;
}

}  // namespace collab::fuzz::lan_discovery_target
