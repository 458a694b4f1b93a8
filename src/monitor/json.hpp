#pragma once
// Views as JSON, for browsers and scripts. Fields are added, never changed. What is unknown is null.

#include "monitor/events.hpp"
#include "monitor/loss_history.hpp"
#include "monitor/swarm_view.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace collab::monitor {

/// Of the interface; grows when a field changes its meaning, which we avoid.
inline constexpr int kJsonVersion = 1;

/// "2026-11-21T09:37:54.123Z".
std::string rfc3339(std::int64_t unix_ms);

/// {"version","time","run":{…},"peers":[…],"rounds":[…]}, rounds newest first. A member of a round that is not
/// known any more has the first 8 letters of its id. Bytes that are no UTF-8 become U+FFFD.
std::string state_json(const SwarmView& view, const std::deque<RoundView>& rounds, std::size_t rounds_max = kRoundsMax);
/// {"version","time","training":{…},"heldout":{…}}; each of the two is columns of equal length, ready for a chart:
/// "epoch", "loss" (mean of peers), "loss_low", "loss_high" (of one peer). Begins when this node did, or behind
/// `after`.
std::string history_json(std::int64_t unix_ms, const LossHistory& losses, std::optional<std::uint64_t> after);
/// One event, on one line.
std::string event_json(std::uint64_t id, std::int64_t unix_ms, const NewEvent& event);
/// {"version","time","error":{"code","message"}}; `code` is a stable word, `message` a sentence for a person.
std::string error_json(std::int64_t unix_ms, std::string_view code, std::string_view message);
/// {"version","time","status":"ok","connected"}: the loop answers, and whether some directory server does.
std::string health_json(std::int64_t unix_ms, bool connected);
/// {"version","time","leaving":true,"pid"}.
std::string leaving_json(std::int64_t unix_ms);

}  // namespace collab::monitor
