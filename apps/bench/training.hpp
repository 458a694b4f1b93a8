#pragma once
// A run of its own on this machine for one measurement, and the processes that train, in it or beside it.

#include "child.hpp"
#include "temporary_folder.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::bench {

struct TrainingOptions {
  std::string preset;
  std::string data;  ///< folder of text; empty: what tools/setup unpacked
  std::uint64_t target_batch = 1;
  unsigned threads = 1;  ///< of each process
  std::string log_level = "warn";
  int stop = -1;  ///< a descriptor; when it becomes readable everything ends with `Failure(interrupted)`
};

/// What some processes did side by side.
struct Slice {
  double seconds = 0;            ///< from "go" to the last "done", in this process
  double own_s = 0;              ///< mean over the processes of their own time
  double own_samples_per_s = 0;  ///< sum over the processes of samples computed per second of its own time
  double cpu_s = 0;              ///< of the processes, coordinator not among them
  std::uint64_t samples = 0;     ///< computed
  std::uint64_t steps = 0;       ///< sum over the processes: a step that two peers take counts twice
  std::map<std::uint64_t, std::uint64_t> epochs;  ///< samples that the run committed, by epoch; none of bare loops
  double handing_over_s = 0;                      ///< mean over steps and peers, like the next two
  double averaging_s = 0;
  double stepping_s = 0;
};

/// A coordinator, and bare loops and peers, each a process. All of it ends with this object.
class Training {
 public:
  /// Founds the run: trains a tokenizer, prepares the text. Throws `Failure`: `usage` when this build has no libtorch,
  /// `data` when there is no text, `machine`.
  explicit Training(TrainingOptions options);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Start a process; the index by which it is called. A peer has joined then.
  std::size_t add_bare();
  std::size_t add_peer();

  /// Side by side the i-th of `whom` computes from unit `first_unit + i * samples` on: so many `samples`, or, when
  /// `steps` > 0, until the run has taken so many steps more; then all of `whom` are peers.
  Slice train(const std::vector<std::size_t>& whom, std::uint64_t first_unit, std::uint64_t samples,
              std::uint64_t steps = 0);

 private:
  std::size_t add(const std::string& kind);
  std::vector<nlohmann::json> ask_some(const std::vector<std::size_t>& whom, const std::vector<nlohmann::json>& orders);

  TrainingOptions options_;
  std::filesystem::path trainer_;          ///< the program
  std::optional<TemporaryFolder> folder_;  ///< of keys, text, tokenizer: removed at the end
  std::string run_;                        ///< with the key of its authority
  std::string address_;                    ///< of the coordinator
  Children coordinator_;                   ///< one
  Children trainers_;
};

}  // namespace collab::bench
