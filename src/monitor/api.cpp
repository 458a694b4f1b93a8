#include "monitor/api.hpp"

#include "monitor/json.hpp"
#include "monitor/metric_table.hpp"

#include <charconv>
#include <optional>
#include <utility>

namespace collab::monitor {
namespace {

SwarmView current_view(const Watched& watched) {
  SwarmView view = watched.view();
  view.run.last_event_id = watched.events.last_id();
  return view;
}

HttpAnswer metrics_page(const Watched& watched) {
  const SwarmView view = watched.view();
  set_swarm_gauges(watched.metrics, view);
  set_process_gauges(watched.metrics);
  HttpAnswer answer;
  answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
  answer.body = watched.metrics.prometheus(view.run.run_id);
  return answer;
}

/// `?name=7`; empty for anything else.
std::optional<std::uint64_t> number(const HttpRequest& request, const std::string& name) {
  const auto asked = request.query.find(name);
  if (asked == request.query.end()) return std::nullopt;
  const std::string& text = asked->second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

HttpAnswer json_page(std::string body) {
  HttpAnswer answer;
  answer.body = std::move(body);
  return answer;
}

}  // namespace

std::string current_state_json(const Watched& watched, std::size_t rounds_max) {
  return state_json(current_view(watched), watched.rounds.kept(), rounds_max);
}

HttpRoutes api_routes(Watched watched) {
  describe_metrics(watched.metrics);
  HttpRoutes routes;
  routes.pages["/api/v1/state"] = [watched](const HttpRequest& request) {
    return json_page(current_state_json(watched, number(request, "rounds").value_or(kRoundsMax)));
  };
  if (watched.losses != nullptr) {
    routes.pages["/api/v1/history"] = [watched](const HttpRequest& request) {
      return json_page(history_json(watched.clock.unix_ms(), *watched.losses, number(request, "after")));
    };
  }
  routes.pages["/metrics"] = [watched](const HttpRequest&) { return metrics_page(watched); };
  routes.pages["/healthz"] = [watched](const HttpRequest&) {
    return json_page(health_json(watched.clock.unix_ms(), watched.view().run.connected));
  };
  routes.streams["/api/v1/events"] = &watched.events;
  return routes;
}

}  // namespace collab::monitor
