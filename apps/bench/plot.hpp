#pragma once
// A picture of what was measured again and again.

#include <filesystem>
#include <string>
#include <vector>

namespace collab::bench {

/// What was measured again and again under one name.
struct Series {
  std::string name;
  std::vector<double> values;
};

/// For each series a curve: which share of its values, from 0 to 100 %, is at most so large. A steep curve is a steady
/// measurement, a long tail at its top are outliers, and of two curves the one on the left is the faster. The median of
/// each is written beside its name. Values are not negative and finite; a series without any is left out.
std::string plot_svg(const std::string& title, const std::string& unit, const std::vector<Series>& series);

/// That, as a file. Throws `Failure(machine)` when it cannot be written.
void write_plot(const std::filesystem::path& file, const std::string& title, const std::string& unit,
                const std::vector<Series>& series);

}  // namespace collab::bench
