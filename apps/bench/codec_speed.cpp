#include "codec_speed.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "statistics.hpp"
#include "tensor/codec.hpp"
#include "tensor/vector_level.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

/// N(0,1) by Box and Muller.
std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  Random random = Random(seed).derive("values of the codecs");
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    const double angle = 2 * std::numbers::pi * random.uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

/// One codec at one level, and what is known of it.
struct Contender {
  CodecId id = CodecId::float32;
  VectorLevel level = VectorLevel::portable;
  std::vector<double> encode_seconds, decode_seconds, round_trip_seconds;
  std::size_t bytes = 0;
  double mean_squared_error = 0;
  double error_max = 0;
  bool equal_to_portable = false;
};

/// Of each codec the best level first.
std::vector<Contender> contenders() {
  std::vector<Contender> all;
  for (const CodecId id : kCodecIds) {
    for (auto level = kVectorLevels.rbegin(); level != kVectorLevels.rend(); ++level) {
      if (!works_here(*level)) continue;
      Contender one;
      one.id = id;
      one.level = *level;
      all.push_back(one);
    }
  }
  return all;
}

/// The vector, and what the contenders write to in turn: pages that are there already.
struct Bench {
  explicit Bench(const CodecSpeedOrder& order)
      : values(normal_values(order.floats, order.seed)),
        encoded(sizeof(float) * (order.floats + 1), std::byte(0)),  // one value as a block is 5 bytes
        decoded(order.floats) {}

  std::vector<float> values;
  Bytes encoded;
  std::vector<float> decoded;
};

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const auto& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

/// Leaves bytes and values in `bench`.
void time_once(Contender& contender, Bench& bench) {
  const Codec& one = codec(contender.id, contender.level);
  contender.bytes = one.encoded_bytes({0, bench.values.size()});
  const auto bytes = std::span(bench.encoded).first(contender.bytes);
  bool done = true;
  const double encode = seconds_of([&] { done &= bool(one.encode(bench.values, 0, {}, bytes)); });
  const double decode = seconds_of([&] { done &= bool(one.decode(bytes, 0, bench.decoded)); });
  if (!done) throw Failure(ExitCode::bug, fmt::format("{} refuses finite values", one.name()), "report it");
  contender.encode_seconds.push_back(encode);
  contender.decode_seconds.push_back(decode);
  contender.round_trip_seconds.push_back(encode + decode);
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// One pass of each that is not timed: errors, and whether all levels agree.
void compare(std::vector<Contender>& contenders, Bench& bench) {
  Bench portable = bench;
  for (Contender& contender : contenders) {
    Contender by_portable = contender;
    by_portable.level = VectorLevel::portable;
    time_once(by_portable, portable);
    // nothing of the one before may pass for this one's
    std::fill(bench.encoded.begin(), bench.encoded.end(), std::byte(0xa5));
    std::fill(bench.decoded.begin(), bench.decoded.end(), std::numeric_limits<float>::quiet_NaN());
    Contender warm = contender;
    time_once(warm, bench);
    contender.equal_to_portable =
        same_bytes(std::span(bench.encoded).first(warm.bytes), std::span(portable.encoded).first(warm.bytes)) &&
        same_bytes(std::as_bytes(std::span(bench.decoded)), std::as_bytes(std::span(portable.decoded)));
    double squares = 0;
    for (std::size_t i = 0; i < bench.values.size(); ++i) {
      const double error = std::abs(double(bench.decoded[i]) - double(bench.values[i]));
      squares += error * error;
      contender.error_max = std::max(contender.error_max, error);
    }
    contender.mean_squared_error = squares / static_cast<double>(bench.values.size());
  }
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

json to_json(const Contender& contender, std::size_t floats) {
  const double gigabytes = static_cast<double>(floats) * sizeof(float) * 1e-9;
  const double encode = median(contender.encode_seconds);
  const double decode = median(contender.decode_seconds);
  return {{"codec", codec(contender.id).name()},
          {"level", name_of(contender.level)},
          {"encode_seconds", encode},
          {"decode_seconds", decode},
          {"encode_seconds_min", least(contender.encode_seconds)},
          {"decode_seconds_min", least(contender.decode_seconds)},
          {"round_trip_seconds", median(contender.round_trip_seconds)},
          {"round_trip_seconds_min", least(contender.round_trip_seconds)},
          {"encode_gb_per_s", gigabytes / encode},
          {"decode_gb_per_s", gigabytes / decode},
          {"bytes", contender.bytes},
          {"mean_squared_error", contender.mean_squared_error},
          {"error_max", contender.error_max},
          {"equal_to_portable", contender.equal_to_portable}};
}

void print_speeds(const json& figures) {
  fmt::print("codec: {} floats of N(0,1), medians of {} rounds, seconds of one core; collab works with {} here\n",
             figures.at("floats").get<std::uint64_t>(), figures.at("rounds").get<std::uint64_t>(),
             figures.at("level").get<std::string>());
  fmt::print("  {:<9} {:<9} {:>9} {:>9} {:>11} {:>9} {:>9} {:>9} {:>10} {:>10}  {}\n", "codec", "by", "encode s",
             "decode s", "round trip", "least", "enc GB/s", "dec GB/s", "MSE", "worst", "equal to portable");
  for (const json& row : figures.at("codecs")) {
    const auto real = [&](const char* field) { return row.at(field).get<double>(); };
    fmt::print("  {:<9} {:<9} {:>9.5f} {:>9.5f} {:>11.5f} {:>9.5f} {:>9.1f} {:>9.1f} {:>10.3g} {:>10.3g}  {}\n",
               row.at("codec").get<std::string>(), row.at("level").get<std::string>(), real("encode_seconds"),
               real("decode_seconds"), real("round_trip_seconds"), real("round_trip_seconds_min"),
               real("encode_gb_per_s"), real("decode_gb_per_s"), real("mean_squared_error"), real("error_max"),
               row.at("equal_to_portable").get<bool>() ? "yes" : "NO");
  }
  print_machine(figures);
}

}  // namespace

int measure_codecs(const CodecSpeedOrder& order) {
  const Report report;
  std::vector<Contender> all = contenders();
  Bench bench(order);
  compare(all, bench);
  for (std::size_t round = 0; round < order.rounds; ++round)
    for (Contender& contender : all) time_once(contender, bench);
  json rows = json::array();
  for (const Contender& contender : all) rows.push_back(to_json(contender, order.floats));
  const json out = {{"bench", "codec"},   {"floats", order.floats},         {"rounds", order.rounds},
                    {"seed", order.seed}, {"level", name_of(best_level())}, {"codecs", rows}};
  std::vector<Series> series;
  for (const Contender& one : all)
    series.push_back({fmt::format("{} by {}", codec(one.id).name(), name_of(one.level)), one.round_trip_seconds});
  report.show(out, print_speeds, order.output, "seconds there and back", series);
  const bool equal = std::all_of(all.begin(), all.end(), [](const Contender& one) { return one.equal_to_portable; });
  return static_cast<int>(equal ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
