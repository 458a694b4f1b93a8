#include "nat_matrix.hpp"

#include "cli/program.hpp"
#include "options.hpp"
#include "sim/nat_matrix.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <vector>

namespace collab::sim {
namespace {

constexpr int kEndedEarly = 3;  // the exit code of a run that was ended early

/// What the cells of one setting come to that are to end in one way.
struct Row {
  std::size_t cells = 0;
  std::size_t tries = 0;
  std::size_t as_expected = 0;
  std::vector<Duration> answered_in;
  std::vector<Duration> punched_in;
  std::vector<Duration> crossed_in;

  void add(const NatCell& cell) {
    ++cells;
    tries += cell.tries;
    as_expected += cell.as_expected;
    const auto append = [](std::vector<Duration>& to, const std::vector<Duration>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(answered_in, cell.answered_in);
    append(punched_in, cell.punched_in);
    append(crossed_in, cell.crossed_in);
  }
};

/// Zero of none.
double quantile_s(std::vector<Duration> of, double share) {
  if (of.empty()) return 0;
  std::sort(of.begin(), of.end());
  return to_seconds(of[static_cast<std::size_t>(share * static_cast<double>(of.size() - 1))]);
}

Row row_of(const NatMatrix& matrix, std::size_t setting, NatWay way) {
  Row row;
  for (const NatCell& cell : matrix.cells) {
    if (cell.setting == setting && cell.expected == way) row.add(cell);
  }
  return row;
}

/// The median and the most of them; nothing of none.
std::string median_and_most(const std::vector<Duration>& times, int digits) {
  if (times.empty()) return "";
  return fmt::format("{:.{}f} to {:.{}f}", quantile_s(times, 0.5), digits, quantile_s(times, 1), digits);
}

std::string text_of(const NatMatrix& matrix) {
  std::string out = fmt::format("{:<36} {:<8} {:>5} {:>14} {:>14} {:>14} {:>14}\n", "round trip, closed doors", "way",
                                "pairs", "as expected", "answered, s", "punched, s", "crossed, s");
  for (std::size_t setting = 0; setting < matrix.settings.size(); ++setting) {
    for (const NatWay way : {NatWay::dialled, NatWay::punched, NatWay::relayed, NatWay::led_on}) {
      const Row row = row_of(matrix, setting, way);
      out += fmt::format("{:<36} {:<8} {:>5} {:>14} {:>14} {:>14} {:>14}\n", matrix.settings[setting].name, name(way),
                         row.cells, fmt::format("{} of {}", row.as_expected, row.tries),
                         median_and_most(row.answered_in, 2), median_and_most(row.punched_in, 2),
                         median_and_most(row.crossed_in, 3));
    }
  }
  return out +
         "Every pair of the kinds of boxes that a run of --seeds 1 names, each try in a swarm of its own. Seconds,\n"
         "the median and the most: until a first call is answered; until the pair needs no relay; and of that, once\n"
         "all was agreed, until dials of both ends met. Led on: by a relay that carries tensors too.\n";
}

nlohmann::json to_json(const NatMatrix& matrix) {
  nlohmann::json out;
  out["tries"] = matrix.tries;
  for (const NatCell& cell : matrix.cells) {
    const NatLimits limits = limits_of(cell.expected, matrix.settings[cell.setting]);
    out["cells"].push_back({{"setting", matrix.settings[cell.setting].name},
                            {"first", matrix.kinds[cell.a].name},
                            {"second", matrix.kinds[cell.b].name},
                            {"expected", name(cell.expected)},
                            {"tries", cell.tries},
                            {"as_expected", cell.as_expected},
                            {"answered_median_s", quantile_s(cell.answered_in, 0.5)},
                            {"answered_most_s", quantile_s(cell.answered_in, 1)},
                            {"answered_max_s", to_seconds(limits.answered_in)}});
    if (cell.punched_in.empty()) continue;
    out["cells"].back().update({{"punched_median_s", quantile_s(cell.punched_in, 0.5)},
                                {"punched_most_s", quantile_s(cell.punched_in, 1)},
                                {"crossed_median_s", quantile_s(cell.crossed_in, 0.5)},
                                {"crossed_most_s", quantile_s(cell.crossed_in, 1)}});
  }
  out["lies"] = matrix.lies;
  return out;
}

/// Where somebody looks on.
void tell_progress(std::size_t done, std::size_t all) {
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r{} of {} swarms", done, all);
}

}  // namespace

int run_nat_matrix(const node::Config& config, const std::string& command) {
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  NatMatrixOptions options;
  options.seed = static_cast<std::uint64_t>(config.number("seed"));
  options.tries = static_cast<std::size_t>(config.number("seeds"));
  options.crypto = crypto_of(config);
  options.go_on = [&interrupt](std::size_t done, std::size_t all) {
    tell_progress(done, all);
    return !interrupt.asked();
  };
  const NatMatrix matrix = run_nat_matrix(options);
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r{:40}\r", "");
  if (!is_quiet(config)) fmt::print("{}", text_of(matrix));
  const std::vector<std::string> shorts = short_cells(matrix);
  for (const std::string& lie : matrix.lies) fmt::print(stderr, "{}\n", lie);
  for (const std::string& one : shorts) fmt::print(stderr, "broke nat: {}\n", one);
  nlohmann::json out = to_json(matrix);
  out["workload"] = "nat";
  out["command"] = fmt::format("{} --seed {}", command, options.seed);
  out["short"] = shorts;
  out["held"] = shorts.empty();
  write_json(config, out);
  if (!shorts.empty()) return 1;
  return matrix.tries < options.tries ? kEndedEarly : 0;
}

}  // namespace collab::sim
