#include "tensor/view.hpp"

#include "tensor/codec_kernels.hpp"

namespace collab {

bool all_finite(std::span<const float> values) noexcept {
  return codec_kernels(best_level()).all_finite(values.data(), values.size());
}

}  // namespace collab
