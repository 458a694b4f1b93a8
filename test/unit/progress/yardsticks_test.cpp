#include "progress/yardsticks.hpp"

#include "base/random.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::progress {
namespace {

/// The lower median of what all of them but `left_out` tell.
template <class Value>
Value median(const std::vector<Record>& told, std::size_t left_out, Value Record::*field) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < told.size(); ++i)
    if (i != left_out && told[i].taking_part) values.push_back(told[i].*field);
  std::sort(values.begin(), values.end());
  return values.empty() ? Value(0) : values[(values.size() - 1) / 2];
}

}  // namespace

TEST_CASE("yardsticks: each peer is measured by the lower median of the others who take part") {
  Random random(7);
  for (std::size_t count = 0; count <= 12; ++count) {
    CAPTURE(count);
    std::vector<Record> told(count);
    Yardsticks yardsticks;
    for (Record& record : told) {
      record.samples_per_s = static_cast<double>(random.below(5));  // equal ones too
      record.microbatch = random.below(5);
      record.taking_part = random.chance(0.8);
      yardsticks.add(record);
    }
    yardsticks.sort();
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      CHECK(yardsticks.samples_per_s(&told[i]) == median(told, i, &Record::samples_per_s));
      CHECK(yardsticks.microbatch(&told[i]) == median(told, i, &Record::microbatch));
    }
    CHECK(yardsticks.samples_per_s(nullptr) == median(told, count, &Record::samples_per_s));
  }
}

}  // namespace collab::progress
