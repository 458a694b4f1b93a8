#include "workload.hpp"

#include "base/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace collab::bench {
namespace {

Random generator(const Workload& workload, std::size_t index, std::uint64_t round) {
  return Random(workload.seed).derive(fmt::format("input of peer {} in round {}", index, round));
}

float draw(Random& random) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(random.next() >> 40U) - (1 << 23)) * 0x1p-23F;
}

}  // namespace

Schema Workload::schema() const {
  Schema schema;
  for (std::size_t i = 0; i < tensors; ++i) {
    TensorInfo tensor;
    tensor.name = fmt::format("tensor.{}", i);
    tensor.shape = {static_cast<std::int64_t>(floats)};
    schema.tensors.push_back(tensor);
  }
  return schema;
}

CodecMap Workload::codecs() const {
  const auto id = codec_named(codec);
  if (!id) {
    throw Failure(ExitCode::usage, fmt::format("there is no codec \"{}\"", codec), kCodecNames);
  }
  return {schema(), CodecOptions::all(*id)};
}

void fill(const Workload& workload, std::size_t index, std::uint64_t round, std::span<float> into) {
  Random random = generator(workload, index, round);
  for (float& value : into) value = draw(random);
}

double max_relative_error(const Workload& workload, std::uint64_t round, std::span<const float> result) {
  std::vector<Random> inputs;
  for (std::size_t i = 0; i < workload.peers; ++i) inputs.push_back(generator(workload, i, round));
  double worst = 0;
  for (const float value : result) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    double sum = 0;
    double magnitudes = 0;
    double weights = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto weight = static_cast<double>(weight_of(i));
      const auto input = static_cast<double>(draw(inputs[i]));
      sum += weight * input;
      magnitudes += weight * std::abs(input);
      weights += weight;
    }
    const double off = std::abs(static_cast<double>(value) - sum / weights);
    if (off > 0) worst = std::max(worst, off / (magnitudes / weights));  // infinite where all inputs are zero
  }
  return worst;
}

Digest digest_of(std::span<const float> values) {
  return hash_bytes("collab bench result", std::as_bytes(values));
}

}  // namespace collab::bench
