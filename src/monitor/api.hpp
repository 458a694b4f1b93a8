#pragma once
// The interfaces of the dashboard as rows of the route table.

#include "base/clock.hpp"
#include "base/metrics.hpp"
#include "monitor/events.hpp"
#include "monitor/http_routes.hpp"
#include "monitor/loss_history.hpp"
#include "monitor/swarm_view.hpp"

#include <functional>

namespace collab::monitor {

/// What the interfaces show. Everything outlives the server; `view` runs on the loop, for each request anew.
struct Watched {
  std::function<SwarmView()> view;
  const Rounds& rounds;
  const Events& events;
  Metrics& metrics;
  Clock& clock;
  const LossHistory* losses = nullptr;  ///< null: this node keeps none
};

/// The whole state as JSON: what `/api/v1/state` answers and the status socket sends. Rounds: the newest `rounds_max`.
std::string current_state_json(const Watched& watched, std::size_t rounds_max = kRoundsMax);

/// `/api/v1/state` (`?rounds=N`: no more than these), `/api/v1/history` when losses are kept, `/api/v1/events`,
/// `/metrics`, `/healthz`. Pages are added to the result by whoever has some (pages.hpp).
HttpRoutes api_routes(Watched watched);

}  // namespace collab::monitor
