// Files come from anywhere: read() takes any bytes, and what it accepts is the same file when written and read again.
#include "support.hpp"
#include "tensor/safetensors.hpp"

#include <algorithm>
#include <cstdlib>

namespace collab::fuzz::safetensors_target {

bool same(const safetensors::Tensor& a, const safetensors::Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
}

COLLAB_FUZZ_TARGET(safetensors) {
  const auto file = safetensors::read(std::as_bytes(std::span(data, size)));
  if (file.has_error()) return 0;
  const Bytes again = safetensors::write(file->tensors(), file->metadata());
  const auto back = safetensors::read(again);
  if (back.has_error() || back->metadata() != file->metadata()) std::abort();
  if (back->tensors().size() != file->tensors().size()) std::abort();
  for (const auto& tensor : file->tensors()) {
    const auto* found = back->find(tensor.name);
    if (found == nullptr || !same(*found, tensor)) std::abort();
  }
  return 0;
}

}  // namespace collab::fuzz::safetensors_target
