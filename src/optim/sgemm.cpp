#include "optim/sgemm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace collab::optim {
namespace {

constexpr std::int64_t kRows = 512;
constexpr int kProductsMin = 3;

}  // namespace

double sgemm_gflops(const Clock& clock, Duration time) {
  const at::NoGradGuard no_gradient;
  const at::Tensor a = at::full({kRows, kRows}, 0.5F);
  const at::Tensor b = at::full({kRows, kRows}, 0.25F);
  at::Tensor product = at::mm(a, b);  // the first one also starts the threads
  const double operations = 2.0 * kRows * kRows * kRows;
  const TimePoint end = clock.now() + time;
  Duration best = Duration::max();
  for (int i = 0; i < kProductsMin || clock.now() < end; ++i) {
    const TimePoint start = clock.now();
    at::mm_out(product, a, b);
    best = std::min(best, Duration(clock.now() - start));
  }
  return operations / to_seconds(std::max(best, Duration(1))) / 1e9;
}

}  // namespace collab::optim
