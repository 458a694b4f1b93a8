#pragma once
// A linear program with few variables and many short rows: the shares of a group whose pairs have limits of their own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace collab::averaging {

/// The sum of coefficient·x[variable] over `terms` is at least `bound`. A term that is not needed has coefficient 0.
struct ProgramRow {
  struct Term {
    std::size_t variable = 0;
    double coefficient = 0;
  };
  std::array<Term, 3> terms;
  double bound = 0;
};

/// Minimises x[shares] under x[0..shares) >= 0 with sum 1, x[shares] >= least, and the rows. The rows' largest
/// coefficients should be near 1, for "violated most" compares them.
struct Program {
  std::size_t shares = 1;  ///< >= 1
  double least = 0;
  std::vector<ProgramRow> rows;
};

/// Dual simplex: begins without the rows and takes in the one that is violated most until none is, so it works with
/// matrices of shares + 1 rows however many rows there are. The same steps, and so the same bits, on every machine.
///
/// `work`: multiplications that it may still do, about a nanosecond each; what it did is taken off. Nothing when they
/// do not suffice, or when the rows contradict each other.
std::optional<std::vector<double>> solve(const Program& program, std::int64_t& work);

}  // namespace collab::averaging
