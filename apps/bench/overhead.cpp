#include "overhead.hpp"

#include "cli/program.hpp"
#include "statistics.hpp"
#include "training.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSlicesOfSeveral = 3;  // for each of one peer

/// Both sides of a measurement: slice i of one was followed by slice i of the other.
struct Sides {
  std::vector<double> bare_samples_per_s;
  std::vector<double> samples_per_s;
  std::vector<double> cpu_ratios;  ///< samples computed per second of processor time, against the bare ones
  std::vector<Slice> slices;       ///< of the side with collab
};

double samples_per_cpu_s(const Slice& slice) {
  return static_cast<double>(slice.samples) / slice.cpu_s;
}

std::uint64_t committed(const Slice& slice) {
  std::uint64_t samples = 0;
  for (const auto& [epoch, weight] : slice.epochs) samples += weight;
  return samples;
}

/// `measure(i, without, together)`: slice i of both sides; the first one is to warm up.
template <class Measure, class Rate>
void alternate(const std::string& what, std::uint64_t slices, const Measure& measure, const Rate& rate, Sides& sides) {
  for (std::uint64_t i = 0; i <= slices; ++i) {
    Slice without;
    Slice together;
    measure(i, without, together);
    fmt::print(stderr, "{}: {:.0f} against {:.0f} samples/s{}\n", what, rate(together), without.own_samples_per_s,
               i == 0 ? " (to warm up)" : "");
    if (i == 0) continue;
    sides.bare_samples_per_s.push_back(without.own_samples_per_s);
    sides.samples_per_s.push_back(rate(together));
    sides.cpu_ratios.push_back(samples_per_cpu_s(together) / samples_per_cpu_s(without));
    sides.slices.push_back(together);
  }
}

/// Of the same processes, as many samples each: what they did before, and more of it.
void add(Slice& sum, const Slice& more) {
  const auto time = [](const Slice& slice) {
    return slice.samples == 0 ? 0 : static_cast<double>(slice.samples) / slice.own_samples_per_s;
  };
  sum.own_samples_per_s = static_cast<double>(sum.samples + more.samples) / (time(sum) + time(more));
  sum.seconds += more.seconds;
  sum.own_s += more.own_s;
  sum.cpu_s += more.cpu_s;
  sum.samples += more.samples;
  sum.steps += more.steps;
  sum.epochs.insert(more.epochs.begin(), more.epochs.end());
}

struct Measured {
  Sides one;
  Sides several;
};

/// Step by step, and who is first changes: what else the machine does for some seconds meets both alike.
void measure_one(const OverheadOrder& order, Training& training, std::size_t bare, std::size_t peer, Sides& sides) {
  const auto measure = [&](std::uint64_t slice, Slice& without, Slice& together) {
    for (std::uint64_t step = 0; step < order.steps; ++step) {
      const std::uint64_t first_unit = (slice * order.steps + step) * order.target_batch;
      const auto train_bare = [&] { add(without, training.train({bare}, first_unit, order.target_batch)); };
      if (step % 2 == 0) train_bare();
      add(together, training.train({peer}, first_unit, order.target_batch, /*steps=*/1));
      if (step % 2 == 1) train_bare();
    }
  };
  const auto rate = [](const Slice& slice) { return static_cast<double>(committed(slice)) / slice.own_s; };
  alternate("one peer", order.slices, measure, rate, sides);
}

/// Slices of many steps: what one step leaves to do while the next is computed belongs to it. Half of the bare ones
/// come before and half after, and there are more of them: here the machine's moods show more than in single steps.
void measure_several(const OverheadOrder& order, Training& training, const std::vector<std::size_t>& bare,
                     const std::vector<std::size_t>& peers, Sides& sides) {
  const std::uint64_t samples = order.steps * order.target_batch;
  const std::uint64_t halves = 2 * peers.size();
  const std::uint64_t half = (samples + halves - 1) / halves;  // of what one of them computes
  const auto measure = [&](std::uint64_t slice, Slice& without, Slice& together) {
    const std::uint64_t first_unit = slice * samples;
    add(without, training.train(bare, first_unit, half));
    together = training.train(peers, first_unit, 2 * half, order.steps);
    add(without, training.train(bare, first_unit + 2 * half, half));
  };
  const auto rate = [](const Slice& slice) { return static_cast<double>(committed(slice)) / slice.seconds; };
  alternate(fmt::format("{} peers", peers.size()), kSlicesOfSeveral * order.slices, measure, rate, sides);
}

/// With processes of its own: where the kernel puts a process and its memory makes it some percent faster or slower
/// than its twin for as long as it lives.
void measure_cast(const OverheadOrder& order, int stop, Measured& figures) {
  Training training({order.preset, order.data, order.target_batch, order.threads, order.output.log_level, stop});
  std::vector<std::size_t> bare = {training.add_bare()};
  std::vector<std::size_t> peers = {training.add_peer()};
  measure_one(order, training, bare.front(), peers.front(), figures.one);
  while (peers.size() < order.peers) {
    bare.push_back(training.add_bare());
    peers.push_back(training.add_peer());
  }
  measure_several(order, training, bare, peers, figures.several);
}

Measured measure(const OverheadOrder& order, int stop) {
  Measured figures;
  for (std::uint64_t cast = 1; cast <= order.casts; ++cast) {
    fmt::print(stderr, "founding run {} of {}, preset {}, on this machine\n", cast, order.casts, order.preset);
    measure_cast(order, stop, figures);
  }
  return figures;
}

void add_rates(json& out, const std::string& bare, const std::string& with, const Sides& sides) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < sides.samples_per_s.size(); ++i)
    ratios.push_back(sides.samples_per_s[i] / sides.bare_samples_per_s[i]);
  out[bare + "_samples_per_s"] = median(sides.bare_samples_per_s);
  out[with + "_samples_per_s"] = median(sides.samples_per_s);
  out[with + "_ratio_min"] = *std::min_element(ratios.begin(), ratios.end());
  out[with + "_ratio_median"] = median(ratios);
  out[with + "_ratio_max"] = *std::max_element(ratios.begin(), ratios.end());
  out[with + "_cpu_ratio_median"] = median(sides.cpu_ratios);
}

json to_json(const OverheadOrder& order, const Measured& figures) {
  json out = {{"bench", "overhead"},      {"preset", order.preset},        {"target_batch", order.target_batch},
              {"threads", order.threads}, {"casts", order.casts},          {"slices", order.slices},
              {"peers", order.peers},     {"steps_per_slice", order.steps}};
  add_rates(out, "bare", "wrapped", figures.one);
  add_rates(out, "bare_loops", "peers", figures.several);
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t expected = 0;
  double handing_over = 0;
  double averaging = 0;
  double stepping = 0;
  const auto slices = static_cast<double>(figures.several.slices.size());
  for (const Slice& slice : figures.several.slices) {
    steps += slice.epochs.size();
    samples += committed(slice);
    for (const auto& [epoch, weight] : slice.epochs) expected += weight / order.target_batch;
    handing_over += slice.handing_over_s / slices;
    averaging += slice.averaging_s / slices;
    stepping += slice.stepping_s / slices;
  }
  out.update({{"steps", steps},
              {"samples", samples},
              {"steps_expected", expected},
              {"handing_over_s", handing_over},
              {"averaging_s", averaging},
              {"stepping_s", stepping}});
  return out;
}

void print_overhead(const json& figures) {
  const auto real = [&](const std::string& field) { return figures.at(field).get<double>(); };
  const auto whole = [&](const char* field) { return figures.at(field).get<std::uint64_t>(); };
  const auto sides = [&](const std::string& bare, const std::string& with) {
    return fmt::format("{:.0f} samples/s against {:.0f}: {:.1f} % median, {:.1f} least, {:.1f} most; by CPU {:.1f} %",
                       real(with + "_samples_per_s"), real(bare + "_samples_per_s"), 100 * real(with + "_ratio_median"),
                       100 * real(with + "_ratio_min"), 100 * real(with + "_ratio_max"),
                       100 * real(with + "_cpu_ratio_median"));
  };
  fmt::print("overhead: preset {}, target batch {}, {} casts with {} slices of {} steps, threads a process: {}\n",
             figures.at("preset").get<std::string>(), whole("target_batch"), whole("casts"), whole("slices"),
             whole("steps_per_slice"), whole("threads"));
  print_row("one peer", sides("bare", "wrapped"));
  const std::string several = fmt::format("{} peers", whole("peers"));
  print_row(several, sides("bare_loops", "peers"));
  print_row("steps of " + several,
            fmt::format("{} of {} with {} samples", whole("steps"), whole("steps_expected"), whole("samples")));
  print_row("of each step",
            fmt::format("{:.1f} ms handing over, {:.1f} averaging, {:.1f} stepping", 1e3 * real("handing_over_s"),
                        1e3 * real("averaging_s"), 1e3 * real("stepping_s")));
  print_machine(figures);
}

}  // namespace

int measure_overhead(const OverheadOrder& order) {
  const cli::Interrupt interrupt;
  const Report report;
  const Measured measured = measure(order, interrupt.descriptor());
  const json out = to_json(order, measured);
  report.show(out, print_overhead, order.output, "samples a second",
              {{"bare loop", measured.one.bare_samples_per_s},
               {"one peer", measured.one.samples_per_s},
               {fmt::format("{} bare loops", order.peers), measured.several.bare_samples_per_s},
               {fmt::format("{} peers", order.peers), measured.several.samples_per_s}});
  return static_cast<int>(out.at("steps") == out.at("steps_expected") ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
