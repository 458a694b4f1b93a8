#include "jobs/albert/batch.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <vector>

namespace collab::jobs {
namespace {

template <class T>
at::Tensor tensor_of(const std::vector<T>& values, c10::Device device) {
  const auto type = std::is_same_v<T, float> ? at::kFloat : at::kLong;
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions(type));
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<T>());
  return device.is_cpu() ? tensor : tensor.to(device);
}

using Indices = std::vector<std::int64_t>;

struct Columns {
  Indices tokens, positions, types, to_rectangle, to_packed, masked_rows, labels, first_rows, sop_labels;
  std::vector<float> attention_mask, mlm_weights, sop_weights;
};

void append(Columns& columns, const Sample& sample, std::size_t longest, float share) {
  const auto first_row = static_cast<std::int64_t>(columns.tokens.size());
  const auto first_place = static_cast<std::int64_t>(columns.to_rectangle.size());
  columns.first_rows.push_back(first_row);
  for (std::size_t i = 0; i < longest; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const bool real = i < sample.tokens.size();
    columns.to_rectangle.push_back(real ? first_row + place : first_row);
    columns.attention_mask.push_back(real ? 0 : -std::numeric_limits<float>::infinity());
    if (!real) continue;
    columns.tokens.push_back(sample.tokens[i]);
    columns.positions.push_back(place);
    columns.types.push_back(i >= sample.first_segment);
    columns.to_packed.push_back(first_place + place);
  }
  for (const std::uint32_t place : sample.masked) {
    columns.masked_rows.push_back(first_row + place);
    columns.mlm_weights.push_back(share / static_cast<float>(sample.masked.size()));
  }
  columns.labels.insert(columns.labels.end(), sample.labels.begin(), sample.labels.end());
  columns.sop_labels.push_back(sample.swapped.value_or(false));
  columns.sop_weights.push_back(sample.swapped ? share : 0);
}

}  // namespace

Batch make_batch(std::span<const Sample> samples, c10::Device device) {
  assert(!samples.empty());
  std::size_t longest = 0;
  for (const Sample& sample : samples) longest = std::max(longest, sample.tokens.size());
  Columns columns;
  for (const Sample& sample : samples) append(columns, sample, longest, 1.0F / static_cast<float>(samples.size()));

  Batch batch;
  batch.samples = static_cast<std::int64_t>(samples.size());
  batch.longest = static_cast<std::int64_t>(longest);
  batch.tokens = tensor_of(columns.tokens, device);
  batch.positions = tensor_of(columns.positions, device);
  batch.types = tensor_of(columns.types, device);
  batch.to_rectangle = tensor_of(columns.to_rectangle, device);
  batch.to_packed = tensor_of(columns.to_packed, device);
  if (columns.tokens.size() < columns.to_rectangle.size())
    batch.attention_mask = tensor_of(columns.attention_mask, device).view({batch.samples, 1, 1, batch.longest});
  batch.masked_rows = tensor_of(columns.masked_rows, device);
  batch.labels = tensor_of(columns.labels, device);
  batch.mlm_weights = tensor_of(columns.mlm_weights, device);
  batch.first_rows = tensor_of(columns.first_rows, device);
  batch.sop_labels = tensor_of(columns.sop_labels, device);
  batch.sop_weights = tensor_of(columns.sop_weights, device);
  return batch;
}

}  // namespace collab::jobs
