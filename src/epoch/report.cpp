#include "epoch/report.hpp"

#include "base/log.hpp"
#include "base/metrics.hpp"

#include <algorithm>

namespace collab::epoch {

void tell_epoch(const EpochReport& report, Metrics& metrics, Log& log) {
  metrics.set("collab_epoch", static_cast<double>(report.epoch + 1));
  metrics.add("collab_rounds_total", 1, {{"result", "committed"}});
  metrics.add("collab_samples_total", static_cast<double>(report.own_weight));
  metrics.add("collab_units_total", static_cast<double>(report.work.units), {{"result", "committed"}});
  metrics.add("collab_units_total", static_cast<double>(report.work.duplicates), {{"result", "duplicate"}});
  metrics.observe("collab_round_duration_seconds", to_seconds(report.averaging), {{"phase", "averaging"}});
  metrics.observe("collab_round_duration_seconds", to_seconds(report.gathering), {{"phase", "gathering"}});
  log.info("epoch.committed", {{"epoch", report.epoch},
                               {"peers", report.group ? report.group->roster.size() : 1},
                               {"weight", report.weight},
                               {"own_weight", report.own_weight},
                               {"units", report.work.units},
                               {"duplicates", report.work.duplicates},
                               {"averaging_s", to_seconds(report.averaging)},
                               {"views", report.round.views},
                               {"rounds", std::max<std::size_t>(report.pass.size(), 1)}});
}

}  // namespace collab::epoch
