#pragma once
// How every measurement ends: figures with what the machine was doing, as a table, a JSON line or a picture.

#include "plot.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace collab::bench {

/// What is asked of any measurement beside what it measures.
struct Output {
  std::string log_level = "warn";  ///< of the peers
  bool json = false;               ///< one line, else a table for people
  std::filesystem::path plot;      ///< an SVG file is written there; empty: none
};

/// Made at the begin of a measurement, shown at its end.
class Report {
 public:
  /// Notes what else the machine does.
  Report();

  /// Prints `figures` with processors, load_before and load_after (of the machine, over a minute; near `processors`: it
  /// was not idle), as one line or by `table`, which is given all of them. Draws `series`, whose values are in `unit`.
  /// Throws `Failure(machine)` when the picture cannot be written.
  void show(nlohmann::json figures, void (*table)(const nlohmann::json&), const Output& output, const char* unit,
            const std::vector<Series>& series) const;

 private:
  double load_before_;
};

/// A line of a table.
void print_row(const std::string& name, const std::string& text);
/// Its last one.
void print_machine(const nlohmann::json& figures);

}  // namespace collab::bench
