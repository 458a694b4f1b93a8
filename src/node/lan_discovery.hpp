#pragma once
// Finding a run on the local network: one datagram to a multicast group, answered by its members. Real network only.

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "crypto/peer_id.hpp"
#include "node/run_name.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace collab::node {

inline constexpr std::uint16_t kLanPort = 4600;

/// What a member says of itself (node/wire.hpp). Hearsay.
struct LanAnswer {
  std::string run_id;
  PeerId peer;
  std::uint16_t port = 0;  ///< at the host that the datagram came from
  PeerId authority;
  bool operator==(const LanAnswer&) const = default;
};

Bytes encode_lan_question(const std::string& run_id);
/// The run id. Errors: `bad_request`.
Result<std::string> decode_lan_question(std::span<const std::byte> datagram);
Bytes encode(const LanAnswer& answer);
/// Errors: `bad_request` for anything but one whole answer with a port.
Result<LanAnswer> decode_lan_answer(std::span<const std::byte> datagram);

struct LanOptions {
  std::uint16_t port = kLanPort;                    ///< of the group, the same on all machines
  Duration answer_every = std::chrono::seconds(1);  ///< at most; more questions are ignored
  Duration wait = std::chrono::milliseconds(1500);  ///< for answers; members answer at most once per second
  std::size_t answers_max = 16;
  bool loopback_only = false;  ///< ask 127.0.0.1 instead of the groups: for tests on machines without a network
};

/// Answers questions for `answer.run_id` until cancelled. When the port cannot be had says so in the log and returns: a
/// node is found in other ways too.
Task<> answer_on_lan(asio::any_io_executor executor, Clock& clock, Log& log, LanAnswer answer, LanOptions options);

/// Who answered, in order of arrival, each with the host it answered from. Empty when nobody did, or there is no
/// network.
Task<std::vector<PeerAddress>> ask_lan(asio::any_io_executor executor, Clock& clock, RunName run, LanOptions options);

}  // namespace collab::node
