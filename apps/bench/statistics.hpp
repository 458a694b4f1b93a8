#pragma once
// What every measurement says of its repetitions, and of the machine.

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <sys/resource.h>
#include <vector>

namespace collab::bench {

/// `values` is not empty.
inline double median(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The value below which so large a share of them is; `values` is not empty.
inline double percentile(std::vector<double> values, double share) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Runnable processes of the machine, averaged over the last minute; -1: unknown.
inline double load() {
  double average = 0;
  return ::getloadavg(&average, 1) == 1 ? average : -1;
}

/// User and system time of this process.
inline double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace collab::bench
