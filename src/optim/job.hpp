#pragma once
// What a run trains, seen from the optimizer: gradients as a pure function of (parameters, units).

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace collab::optim {

/// One sample's worth of work, the same on every peer that computes it. Not a `unit` of the flat vector.
struct Unit {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  ///< of the sample in the run's endless stream of passes over the data
  std::uint64_t seed = 0;   ///< the run's; with `index` it decides window, masks and split
};

/// Means over `samples` of the loss and, of ALBERT, its two parts.
struct Loss {
  double total = 0;
  double mlm = std::numeric_limits<double>::quiet_NaN();  ///< of masked words: what people see. NaN: they see `total`
  double sop = 0;
  std::uint64_t samples = 0;
};

/// A number that tells people how good the model is, by a name that travels to the monitor.
using Score = std::pair<std::string, double>;

/// Something that can be trained. Used by the trainer thread only.
class Job {
 public:
  virtual ~Job() = default;

  /// Adds the gradient of the **mean** loss over `units` to the `.grad` of the module's parameters. Any number of
  /// units; memory grows with the job's own microbatch, not with their number. No units: nothing is added.
  virtual Loss gradients(std::span<const Unit> units) = 0;

  /// How many units one pass over the data has; 0: a stream without end.
  virtual std::uint64_t units_per_pass() const { return 0; }

  /// Whose parameters are trained, with those of epoch 0 after construction. Lives as long as the job.
  virtual torch::nn::Module& module() = 0;

  /// Of the present parameters, on data that is never trained on; the first is the loss that dashboards show. Empty
  /// when the job has none.
  virtual std::vector<Score> evaluate() { return {}; }
};

}  // namespace collab::optim
