#include "report.hpp"

#include "statistics.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <thread>
#include <utility>

namespace collab::bench {

using nlohmann::json;

Report::Report() : load_before_(load()) {}

void Report::show(json figures, void (*table)(const json&), const Output& output, const char* unit,
                  const std::vector<Series>& series) const {
  figures["processors"] = std::thread::hardware_concurrency();
  figures["load_before"] = load_before_;
  figures["load_after"] = load();
  if (output.json) {
    fmt::print("{}\n", figures.dump());
  } else {
    table(figures);
  }
  if (!output.plot.empty()) write_plot(output.plot, figures.at("bench").get<std::string>(), unit, series);
}

void print_row(const std::string& name, const std::string& text) {
  fmt::print("  {:<24}{}\n", name, text);
}

void print_machine(const json& figures) {
  print_row("machine",
            fmt::format("{} processors, load {:.2f} before, {:.2f} after", figures.at("processors").get<int>(),
                        figures.at("load_before").get<double>(), figures.at("load_after").get<double>()));
}

}  // namespace collab::bench
