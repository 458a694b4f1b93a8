#include "stand_in.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::coordinator {

StandIn::StandIn(epoch::Auxiliary::Context context, monitor::Events& events, epoch::MemberOptions options)
    : tracker_(context.tracker),
      log_(context.log),
      events_(events),
      auxiliary_(
          [&] {
            context.is_needed = [this] { return is_needed(); };
            context.on_cells = [this](std::size_t cells) { tell_cells(cells); };
            return std::move(context);
          }(),
          std::move(options), /*on_round=*/[](std::uint64_t, boost::system::error_code) {}) {}

Task<> StandIn::run() {
  co_await auxiliary_.run();
  co_await auxiliary_.stop();
}

Task<> StandIn::leave() {
  co_await auxiliary_.leave();
}

bool StandIn::is_needed() {
  const bool needed = tracker_.nobody_can_be_dialled();
  if (std::exchange(averages_, needed) != needed) tell(needed);
  return needed;
}

/// Peers come and go, and so do cells that need it: the host reads of it when there are more than ever.
void StandIn::tell_cells(std::size_t cells) {
  if (cells <= cells_told_) return;
  cells_told_ = cells;
  events_.add(
      {monitor::EventType::alert,
       tracker_.epoch(),
       {},
       {{"text", fmt::format("{} groups have nobody who can be dialled: this coordinator averages for them", cells)}}});
}

void StandIn::tell(bool averages) {
  log_.info("stand_in", {{"averages", averages}, {"epoch", tracker_.epoch()}});
  if (!averages) return;
  events_.add({monitor::EventType::alert,
               tracker_.epoch(),
               {},
               {{"text", "nobody who trains can be dialled: this coordinator averages for them"}}});
}

}  // namespace collab::coordinator
