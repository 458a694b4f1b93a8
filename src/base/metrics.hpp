#pragma once
// Counters, gauges and histograms of one node, readable as Prometheus text. No global registry.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace collab {

/// Owned by the node, handed to whoever counts. Thread-safe: the trainer counts, the loop counts, HTTP reads.
class Metrics {
 public:
  /// Names and values in this order; part of the identity of a series.
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// Adds to a counter; it exists from the first call.
  void add(std::string_view name, double amount = 1, const Labels& labels = {});
  void set(std::string_view name, double value, const Labels& labels = {});
  /// Counts `value` in the histogram's buckets (powers of two from 1 ms, in seconds).
  void observe(std::string_view name, double value, const Labels& labels = {});
  /// One line that says what `name` means, shown above its series.
  void describe(std::string_view name, std::string_view help);
  /// Zero for a series nobody has touched.
  double value(std::string_view name, const Labels& labels = {}) const;

  /// Prometheus text format 0.0.4, series sorted by name; `run` becomes a label of all.
  std::string prometheus(std::string_view run) const;

 private:
  enum class Kind { counter, gauge, histogram };
  struct Series {
    Labels labels;
    double value = 0;  ///< for a histogram: the sum
    std::uint64_t count = 0;
    std::vector<std::uint64_t> buckets;
  };
  struct Family {
    Kind kind = Kind::counter;
    std::map<Labels, Series> series;
  };
  Series& series(std::string_view name, Kind, const Labels&);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::string, std::string, std::less<>> help_;
};

}  // namespace collab
