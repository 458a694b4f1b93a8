// Frames come from strangers: decode() takes any bytes, what it accepts encodes to the same frame again, and a search
// survives whatever they say.
#include "base/frame.hpp"
#include "matchmaking/gathering.hpp"
#include "support.hpp"

#include <cstdlib>

namespace collab::fuzz::matchmaking_wire_target {

COLLAB_FUZZ_TARGET(matchmaking_wire) {
  using namespace matchmaking;
  const auto message = frame::decode<wire::Header>(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  const Frame again = frame::encode(message->header, message->payload);
  const auto back = frame::decode<wire::Header>(*again);
  if (!back || *frame::encode(back->header, back->payload) != *again) std::abort();

  Terms terms;
  terms.self.key.fill(7);
  terms.options.values = 4096;
  terms.options.plan = [](const std::vector<Applicant>& roster, std::uint32_t /*round*/) {
    Plan plan;
    plan.units.assign(roster.size(), 0);
    plan.units[0] = 1;
    return plan;
  };
  terms.options.weight_max = [](const PeerId&) { return std::uint64_t(1); };
  terms.wanted.deadline = TimePoint(std::chrono::hours(1));
  Links links;
  links.state = [](const PeerId&) { return net::LinkState(); };
  links.can_reach = [](const PeerId&) { return true; };
  const TimePoint now(std::chrono::minutes(1));
  Gathering gathering(terms, links, Start(), Gathering::Carried(), now);
  PeerId from;
  from.key.fill(9);
  gathering.on_message(from, message->header, now);
  gathering.on_message(from, message->header, now);
  gathering.on_time(now + std::chrono::milliseconds(100));
  for (const auto& [to, answer] : gathering.take_outgoing()) (void)frame::encode(answer);
  return 0;
}

}  // namespace collab::fuzz::matchmaking_wire_target
