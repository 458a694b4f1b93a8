#include "averaging/linear_program.hpp"

#include <algorithm>
#include <cmath>

namespace collab::averaging {
namespace {

constexpr double kRowSlack = 1e-12;    // of a row's terms
constexpr double kBoundSlack = 1e-15;  // of a share below 0
constexpr double kPivotMin = 1e-11;
constexpr std::size_t kSum = SIZE_MAX;  // the row of the sum, which is always in the basis

/// As many rows as variables hold with equality: the basis. Constraints are numbered: first x >= its bound for each
/// variable, then the rows of the program.
class DualSimplex {
 public:
  explicit DualSimplex(const Program& program)
      : program_(program), variables_(program.shares + 1), x_(variables_, 0.0), price_(variables_, 0.0) {
    // All bounds but that of share 0, which is what the others leave over.
    for (std::size_t slot = 0; slot < variables_; ++slot) {
      inverse_.emplace_back(variables_, 0.0);
      inverse_[slot][slot] = 1;
      basis_.push_back(slot == 0 ? kSum : slot);
      if (slot > 0 && slot < program.shares) inverse_[slot][0] = -1;
    }
    x_[0] = 1;
    x_[program.shares] = program.least;
    price_[program.shares] = 1;
    for (std::size_t variable = 0; variable < variables_; ++variable)
      rows_.push_back({{{{variable, 1}, {}, {}}}, variable == program.shares ? program.least : 0});
    rows_.insert(rows_.end(), program.rows.begin(), program.rows.end());
    active_.assign(rows_.size(), false);
    for (std::size_t variable = 1; variable < variables_; ++variable) active_[variable] = true;
  }

  std::optional<std::vector<double>> run(std::int64_t& work) {
    for (;;) {
      work -= static_cast<std::int64_t>(variables_ * variables_ + 3 * rows_.size());
      if (work < 0) return std::nullopt;
      const auto entering = missed_most();
      if (!entering) return x_;
      const auto leaving = slot_to_leave(rows_[*entering]);
      if (!leaving) return std::nullopt;
      exchange(*entering, *leaving);
    }
  }

 private:
  /// By how much the constraint is missed, 0 where rounding explains it.
  double missed(std::size_t constraint) const {
    const ProgramRow& row = rows_[constraint];
    double missed = row.bound;
    for (const auto& term : row.terms) missed -= term.coefficient * x_[term.variable];
    if (!(missed > 0)) return 0;
    if (constraint < program_.shares) return missed > kBoundSlack ? missed : 0;  // zero has no size to measure by
    double size = std::abs(row.bound);
    for (const auto& term : row.terms) size += std::abs(term.coefficient * x_[term.variable]);
    return missed > kRowSlack * size ? missed : 0;
  }

  /// While the minimum stands still the first that is missed, with which the method never runs in circles (Bland).
  std::optional<std::size_t> missed_most() const {
    std::optional<std::size_t> worst;
    double most = 0;
    for (std::size_t constraint = 0; constraint < rows_.size(); ++constraint) {
      if (active_[constraint]) continue;
      const double by = missed(constraint);
      if (by <= most) continue;
      worst = constraint;
      most = by;
      if (stalled()) break;
    }
    return worst;
  }

  bool stalled() const { return still_ > 2 * variables_; }

  /// Writes the row in terms of the basis, and says which of that must make room so that no price becomes negative.
  std::optional<std::size_t> slot_to_leave(const ProgramRow& entering) {
    along_.assign(variables_, 0.0);
    std::optional<std::size_t> best;
    double ratio = 0;
    for (std::size_t slot = 0; slot < variables_; ++slot) {
      for (const auto& term : entering.terms) along_[slot] += term.coefficient * inverse_[slot][term.variable];
      if (basis_[slot] == kSum || along_[slot] <= kPivotMin) continue;
      const double here = price_[slot] / along_[slot];
      const bool equal = best && here == ratio;
      // of equal ones the safest division, or Bland's choice
      const bool rather = equal && (stalled() ? basis_[slot] < basis_[*best] : along_[slot] > along_[*best]);
      if (best && !(here < ratio) && !rather) continue;
      best = slot;
      ratio = here;
    }
    return best;
  }

  void exchange(std::size_t entering, std::size_t leaving) {
    const double pivot = along_[leaving];
    std::vector<double>& column = inverse_[leaving];
    for (double& value : column) value /= pivot;
    const double by = missed(entering);
    for (std::size_t i = 0; i < variables_; ++i) x_[i] += column[i] * by;
    const double price = price_[leaving] / pivot;
    for (std::size_t slot = 0; slot < variables_; ++slot) {
      if (slot == leaving || along_[slot] == 0) continue;
      price_[slot] -= price * along_[slot];
      if (basis_[slot] != kSum) price_[slot] = std::max(price_[slot], 0.0);
      for (std::size_t i = 0; i < variables_; ++i) inverse_[slot][i] -= column[i] * along_[slot];
    }
    price_[leaving] = price;
    still_ = price * by > 1e-12 * std::abs(x_[program_.shares]) ? 0 : still_ + 1;
    active_[basis_[leaving]] = false;
    active_[entering] = true;
    basis_[leaving] = entering;
  }

  const Program& program_;
  std::size_t variables_;
  std::vector<ProgramRow> rows_;              ///< all constraints
  std::vector<char> active_;                  ///< by constraint: in the basis
  std::vector<std::size_t> basis_;            ///< constraint by slot
  std::vector<std::vector<double>> inverse_;  ///< of the basis: how x answers when the bound of a slot grows by one
  std::vector<double> x_;
  std::vector<double> price_;  ///< by slot: how the minimum answers, never negative
  std::vector<double> along_;  ///< the entering row in terms of the basis
  std::size_t still_ = 0;      ///< steps since the minimum moved
};

}  // namespace

std::optional<std::vector<double>> solve(const Program& program, std::int64_t& work) {
  return DualSimplex(program).run(work);
}

}  // namespace collab::averaging
