#include "optim/device.hpp"

#include <sys/resource.h>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

long pages_made() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_minflt;
}

/// What a microbatch does to memory: 80 MB in pieces, and all of it is freed.
void use_memory() {
  std::vector<std::vector<float>> pieces;
  for (int i = 0; i < 10; ++i) pieces.emplace_back(std::size_t(2) << 20U, 1.0F);
}

}  // namespace

TEST_CASE("device: memory that a microbatch frees is there for the next one, without new pages") {
  set_up_device(DeviceWish::cpu, 1);
  use_memory();
  const long before = pages_made();
  for (int i = 0; i < 10; ++i) use_memory();
  CHECK(pages_made() - before < 1000);  // of 20,000 each time, where freed memory goes back to the kernel
}

}  // namespace collab::optim
