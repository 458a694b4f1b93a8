#pragma once
// doctest::Approx adds 1 to the size of what it compares, so near 0 it accepts everything.

#include "support/doctest.hpp"

namespace collab::test {

/// Equal within `tolerance` times the expected value, however small that is.
inline doctest::Approx approximately(double expected, double tolerance) {
  return doctest::Approx(expected).epsilon(tolerance).scale(0);
}

}  // namespace collab::test
