#include "jobs/microbatch_size.hpp"

#include "support/doctest.hpp"

namespace collab::jobs {
namespace {

using namespace std::chrono_literals;

/// A machine that takes so long for a sample.
bool compute(MicrobatchSize& size, Duration sample) {
  return size.computed(size.samples(), sample * size.samples());
}

}  // namespace

TEST_CASE("microbatch size: it is the recipe's where that is done in two seconds, whatever the first one takes") {
  MicrobatchSize size(16);
  CHECK_FALSE(compute(size, 10s));
  for (int i = 0; i < 10; ++i) CHECK_FALSE(compute(size, 120ms));
  CHECK(size.samples() == 16);
}

TEST_CASE(
    "microbatch size: a slow machine computes the largest half of halves that it does in two seconds, at least one") {
  MicrobatchSize size(16);
  (void)compute(size, 500ms);
  CHECK_FALSE(compute(size, 500ms));  // once may be chance
  CHECK(compute(size, 500ms));
  CHECK(size.samples() == 4);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(compute(size, 500ms));
  (void)compute(size, 7s);
  CHECK(compute(size, 7s));
  CHECK(size.samples() == 1);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(compute(size, 7s));
  for (int i = 0; i < 128; ++i) (void)compute(size, 50ms);  // it has come down twice
  CHECK(size.samples() == 2);
}

TEST_CASE("microbatch size: it grows again when the machine is free, step by step, and never beyond the recipe's") {
  MicrobatchSize size(12);
  for (int i = 0; i < 3; ++i) (void)compute(size, 400ms);
  CHECK(size.samples() == 3);
  for (const std::uint32_t next : {6U, 12U}) {
    for (int i = 0; i < 15; ++i) CHECK_FALSE(compute(size, 50ms));
    CHECK(compute(size, 50ms));
    CHECK(size.samples() == next);
  }
  for (int i = 0; i < 100; ++i) CHECK_FALSE(compute(size, 10ms));
}

TEST_CASE("microbatch size: where twice as many take much longer than twice the time it is tried ever more seldom") {
  MicrobatchSize size(4);
  int changes = 0;
  const auto took = [](std::uint32_t samples) -> Duration { return samples == 1 ? 300ms : 2500ms; };
  for (int i = 0; i < 10'000; ++i) changes += size.computed(size.samples(), took(size.samples())) ? 1 : 0;
  CHECK(changes <= 9);
  CHECK(size.samples() == 1);
}

TEST_CASE("microbatch size: what had fewer samples, for no more were leased, says nothing") {
  MicrobatchSize size(16);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(size.computed(7, 5s));
  CHECK(size.samples() == 16);
}

TEST_CASE("microbatch size: at the border it does not go to and fro") {
  MicrobatchSize size(16);
  for (int i = 0; i < 3; ++i) (void)compute(size, 126ms);
  CHECK(size.samples() == 8);
  for (int i = 0; i < 20; ++i) CHECK_FALSE(compute(size, i % 2 == 0 ? 120ms : 130ms));
}

}  // namespace collab::jobs
