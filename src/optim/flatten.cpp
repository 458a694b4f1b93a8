#include "optim/flatten.hpp"

#include "base/error.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>

#include <set>

namespace collab::optim {
namespace {

/// Calls `visit(i, view)` with the place of tensor i in `flat`.
template <class Visit>
void for_each_view(const std::vector<at::Tensor>& tensors, const at::Tensor& flat, Visit visit) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    visit(i, flat.narrow(0, offset, tensors[i].numel()).view(tensors[i].sizes()));
    offset += tensors[i].numel();
  }
}

std::span<float> span_of(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

/// Whether the values of `found` can be read as those of a gradient of `tensor`, which is contiguous.
bool lies_as(const at::Tensor& found, const at::Tensor& tensor) {
  return found.layout() == at::kStrided && found.device() == tensor.device() &&
         found.scalar_type() == tensor.scalar_type() && found.sizes() == tensor.sizes() && found.is_contiguous();
}

void check(const std::vector<NamedTensor>& tensors) {
  const std::string remedy = "train float32 parameters of one device, with requires_grad, made outside of autograd";
  if (tensors.empty()) throw Failure(ExitCode::usage, "the model has no parameters", remedy);
  for (const auto& [name, tensor] : tensors)
    if (!tensor.defined() || tensor.scalar_type() != at::kFloat || !tensor.is_leaf() || !tensor.requires_grad() ||
        tensor.device() != tensors.front().second.device())
      throw Failure(ExitCode::usage, "parameter " + name + " cannot be averaged", remedy);
}

}  // namespace

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> unique;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters())
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) unique.emplace_back(item.key(), item.value());
  return unique;
}

FlatParameters::FlatParameters(std::vector<NamedTensor> tensors, bool apart) {
  check(tensors);
  std::int64_t size = 0;
  for (auto& [name, tensor] : tensors) {
    schema_.tensors.push_back({name, DType::float32, tensor.sizes().vec(), TensorRole::parameter});
    size += tensor.numel();
    tensors_.push_back(tensor);
  }
  const at::NoGradGuard no_grad;
  const auto on_device = tensors_.front().options().requires_grad(false);
  device_values_ = at::empty({size}, on_device);
  for_each_view(tensors_, device_values_, [&](std::size_t i, const at::Tensor& view) {
    view.copy_(tensors_[i]);
    tensors_[i].set_data(view);
  });
  if (on_host() && !apart) {
    host_values_ = device_values_;
    masters_ = tensors_;
    return;
  }
  if (!on_host()) {
    make_room_for_gradients();
    for_each_view(tensors_, device_gradients_, [&](std::size_t i, const at::Tensor& view) {
      if (tensors_[i].grad().defined()) view.copy_(tensors_[i].grad());
      tensors_[i].mutable_grad() = view;
    });
  }
  if (apart) shown_ = device_values_.clone();
  host_values_ = at::empty({size}, on_device.device(at::kCPU).pinned_memory(!on_host()));
  host_values_.copy_(device_values_);
  for_each_view(tensors_, host_values_,
                [&](std::size_t, const at::Tensor& view) { masters_.push_back(view.detach().requires_grad_()); });
}

void FlatParameters::make_room_for_gradients() {
  if (device_gradients_.defined()) return;
  device_gradients_ = at::zeros_like(device_values_);
  host_gradients_ =
      on_host() ? device_gradients_
                : at::zeros({device_values_.numel()}, device_values_.options().device(at::kCPU).pinned_memory(true));
}

std::span<float> FlatParameters::parameters() const {
  return span_of(host_values_);
}
std::span<float> FlatParameters::gradients() const {
  return span_of(host_gradients_);
}

void FlatParameters::collect_gradients() {
  const at::NoGradGuard no_grad;
  make_room_for_gradients();
  for_each_view(tensors_, device_gradients_, [&](std::size_t i, const at::Tensor& view) {
    const at::Tensor found = tensors_[i].grad();
    if (found.defined() && found.is_alias_of(view)) return;
    if (found.defined())  // somebody put another tensor there: it is the whole gradient
      view.copy_(found);
    else
      view.zero_();
    tensors_[i].mutable_grad() = view;
  });
  if (!on_host()) host_gradients_.copy_(device_gradients_);
}

std::vector<FlatPiece> FlatParameters::gradient_pieces() {
  if (!on_host()) {
    collect_gradients();
    return {{0, gradients()}};
  }
  const at::NoGradGuard no_grad;
  std::vector<FlatPiece> pieces;
  std::size_t offset = 0;
  for (const at::Tensor& tensor : tensors_) {
    if (tensor.grad().defined()) {
      if (!lies_as(tensor.grad(), tensor)) tensor.mutable_grad() = at::empty_like(tensor).copy_(tensor.grad());
      pieces.push_back({offset, span_of(tensor.grad())});
    }
    offset += static_cast<std::size_t>(tensor.numel());
  }
  return pieces;
}

void FlatParameters::clear_gradients() {
  if (on_host()) {
    for (const at::Tensor& tensor : tensors_) tensor.mutable_grad() = at::Tensor();
    return;
  }
  const at::NoGradGuard no_grad;
  for_each_view(tensors_, device_gradients_,
                [&](std::size_t i, const at::Tensor& view) { tensors_[i].mutable_grad() = view; });
  device_gradients_.zero_();
}

void FlatParameters::attach_gradients(std::span<float> gradients) {
  const at::Tensor flat = at::from_blob(gradients.data(), {static_cast<std::int64_t>(gradients.size())}, at::kFloat);
  for_each_view(masters_, flat, [&](std::size_t i, const at::Tensor& view) { masters_[i].mutable_grad() = view; });
}

void FlatParameters::detach_gradients() {
  for (const at::Tensor& master : masters_) master.mutable_grad() = at::Tensor();
}

void FlatParameters::publish_parameters() {
  const at::NoGradGuard no_grad;
  if (!shared()) device_values_.copy_(host_values_);
  if (shown_.defined()) shown_.copy_(device_values_);
}

void FlatParameters::publish_change() {
  const at::NoGradGuard no_grad;
  const at::Tensor fresh = host_values_.to(device_values_.device());
  const at::Tensor changed = device_values_ + (fresh - shown_);
  device_values_.copy_(at::where(device_values_ == shown_, fresh, changed));
  shown_.copy_(fresh);
}

}  // namespace collab::optim
