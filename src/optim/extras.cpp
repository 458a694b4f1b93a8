#include "optim/extras.hpp"

#include "tensor/partition.hpp"
#include "tensor/view.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

namespace collab::optim {
namespace {

constexpr double kExactMax = 9007199254740992;  // 2^53

bool can_be_tracked(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kFloat);
}

}  // namespace

std::vector<NamedTensor> named_buffers(const torch::nn::Module& module) {
  std::vector<NamedTensor> unique;
  std::set<const void*> seen;
  for (const auto& item : module.named_buffers()) {
    if (!can_be_tracked(item.value()) || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    unique.emplace_back(item.key(), item.value());
  }
  return unique;
}

template <class Visit>
void Extras::for_each(Visit visit) const {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Range range{begin, tensors_[i].values()};
    visit(i, range);
    begin = range.end();
  }
}

void Extras::track(std::string name, at::Tensor tensor) {
  if (!can_be_tracked(tensor)) {
    throw Failure(ExitCode::usage, "tensor " + name + " cannot be tracked", "float32 or int64");
  }
  const auto taken = [&](const TensorInfo& known) { return known.name == name; };
  if (name.empty() || std::ranges::any_of(tensors_, taken)) {
    throw Failure(ExitCode::usage, "two tracked tensors are called \"" + name + "\", or one has no name",
                  "a name of its own for each");
  }
  const DType type = tensor.scalar_type() == at::kLong ? DType::int64 : DType::float32;
  tensors_.push_back({std::move(name), type, tensor.sizes().vec(), TensorRole::extra});
  live_.push_back(std::move(tensor));
  here_.resize(here_.size() + tensors_.back().values());
  collect();
  agreed_.insert(agreed_.end(), here_.begin() + static_cast<std::ptrdiff_t>(agreed_.size()), here_.end());
}

void Extras::collect() {
  for_each([&](std::size_t i, Range range) {
    const at::Tensor values = live_[i].detach().to(at::kCPU, at::kDouble).contiguous();
    std::copy_n(values.const_data_ptr<double>(), range.size, here_.begin() + static_cast<std::ptrdiff_t>(range.begin));
  });
}

void Extras::hand_over(std::span<float> out) const {
  assert(out.size() == values());
  for_each([&](std::size_t tensor, Range range) {
    for (std::size_t i = range.begin; i < range.end(); ++i) {
      const auto value = static_cast<float>(integral(tensor) ? here_[i] - agreed_[i] : here_[i]);
      const double instead = integral(tensor) ? 0 : agreed_[i];
      out[i] = std::isfinite(value) ? value : static_cast<float>(std::isfinite(instead) ? instead : 0);
    }
  });
}

void Extras::step(std::span<const float> averaged) {
  assert(averaged.size() == values());
  if (!all_finite(averaged)) return;
  for_each([&](std::size_t tensor, Range range) {
    for (std::size_t i = range.begin; i < range.end(); ++i) {
      const double value = averaged[i];
      agreed_[i] = integral(tensor) ? std::clamp(agreed_[i] + std::round(value), -kExactMax, kExactMax) : value;
    }
  });
  to_adopt_ = true;
}

void Extras::adopt() {
  if (std::exchange(to_adopt_, false)) show();
}

void Extras::show() {
  const at::NoGradGuard no_grad;
  for_each([&](std::size_t i, Range range) {
    const auto size = static_cast<std::int64_t>(range.size);
    const at::Tensor flat = at::from_blob(agreed_.data() + range.begin, {size}, at::kDouble);
    live_[i].copy_(flat.view(live_[i].sizes()));
  });
  here_ = agreed_;
}

Bytes Extras::state() const {
  const auto raw = std::as_bytes(std::span(agreed_));
  return {raw.begin(), raw.end()};
}

bool Extras::fits(std::span<const std::byte> state) const noexcept {
  return state.size() == agreed_.size() * sizeof(double);
}

void Extras::load(std::span<const std::byte> state) {
  assert(fits(state));
  if (!state.empty()) std::memcpy(agreed_.data(), state.data(), state.size());
  to_adopt_ = false;
  show();
}

}  // namespace collab::optim
