#pragma once
// Who averages where nobody who trains can be dialled.

#include "epoch/auxiliary.hpp"
#include "monitor/events.hpp"

namespace collab::coordinator {

/// A group needs somebody whom the others can dial, and of all in a run a coordinator always is: while two or more
/// train and none of them can be dialled, it owns all segments of their rounds; and on a grid those of each group in
/// which none can be. It has no samples and holds no parameters. Costs its line what a round costs: from each peer a
/// model, to each peer a model. Memory: a model of float32 for each such group, and what comes in at a time.
/// Thread safety: none; belongs to the node's loop.
class StandIn {
 public:
  /// What `context` has of `is_needed` and `on_cells` is set here. `events` outlives it.
  StandIn(epoch::Auxiliary::Context context, monitor::Events& events, epoch::MemberOptions options);

  /// Ends after `leave()`.
  Task<> run();
  net::Answer was_counted(const PeerId& from, const Frame& request) const {
    return auxiliary_.was_counted(from, request);
  }
  /// Tells the others not to wait and ends `run()`.
  Task<> leave();

 private:
  bool is_needed();
  void tell(bool averages);
  void tell_cells(std::size_t cells);

  progress::Tracker& tracker_;
  Log& log_;
  monitor::Events& events_;
  bool averages_ = false;
  std::size_t cells_told_ = 0;
  epoch::Auxiliary auxiliary_;
};

}  // namespace collab::coordinator
