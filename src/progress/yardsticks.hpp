#pragma once
// What each of many peers is measured by: the others, sorted once for all of them.

#include "progress/self_report.hpp"
#include "progress/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace collab::progress {

/// Medians are the lower ones: a minority that lies moves them no further than honest peers are apart. Of n records
/// that come together n medians of all the others cost one sort.
class Yardsticks {
 public:
  /// A record as it was written; who takes no part measures nobody.
  void add(const Record& told);
  /// After the last `add`.
  void sort();

  /// By all but the one who told `of`, which was added when it takes part; null: one of whom nothing was added.
  double samples_per_s(const Record* of) const;
  std::uint64_t microbatch(const Record* of) const;

 private:
  std::vector<double> rates_;
  std::vector<std::uint64_t> microbatches_;
};

}  // namespace collab::progress
