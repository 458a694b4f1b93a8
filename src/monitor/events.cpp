#include "monitor/events.hpp"

#include "monitor/json.hpp"

#include <array>
#include <cassert>

namespace collab::monitor {

std::string_view name(EventType type) {
  constexpr std::array<std::string_view, 11> names = {
      "peer.joined",  "peer.left",      "peer.lost",        "peer.resynced", "peer.refused", "round.committed",
      "round.failed", "epoch.finished", "checkpoint.saved", "eval.done",     "alert"};
  return names[static_cast<std::size_t>(type)];
}

std::uint64_t Events::add(const NewEvent& event) {
  assert(event.data.size() <= kEventFieldsMax);
  Encoded encoded;
  encoded.id = ++last_id_;
  encoded.json = event_json(encoded.id, clock_.unix_ms(), event);
  kept_.push_back(std::move(encoded));
  if (kept_.size() > kEventsMax) kept_.pop_front();
  added_.notify();
  return last_id_;
}

const Events::Encoded* Events::after(std::uint64_t id) const {
  if (kept_.empty() || id == last_id_) return nullptr;
  const std::uint64_t oldest = kept_.front().id;
  if (id > last_id_ || id < oldest) return &kept_.front();
  return &kept_[static_cast<std::size_t>(id - oldest + 1)];
}

}  // namespace collab::monitor
