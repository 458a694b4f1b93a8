#include "optim/lamb.hpp"

#include "base/random.hpp"
#include "optim/norm.hpp"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

std::vector<float> noise(std::size_t size, std::uint64_t seed, double scale) {
  Random random(seed);
  std::vector<float> values(size);
  for (float& value : values)
    value = static_cast<float>(scale * (static_cast<double>(random.next() >> 11U) * 0x1p-52 - 1));
  return values;
}

/// One tensor under LAMB, as our kernel has it.
struct Ours {
  std::vector<float> parameters, exp_avg, exp_avg_sq;

  explicit Ours(std::vector<float> start) : parameters(start), exp_avg(start.size()), exp_avg_sq(start.size()) {}
  void step(std::vector<float> gradients, std::uint64_t step, double rate, const LambOptions& options, bool decay) {
    lamb_update({parameters, gradients, exp_avg, exp_avg_sq, decay}, step, rate, options);
  }
};

/// The formula in float64, written down a second time.
struct Formula {
  std::vector<double> p, m, v;

  explicit Formula(const std::vector<float>& start) : p(start.begin(), start.end()), m(p.size()), v(p.size()) {}
  void step(const std::vector<float>& g, std::uint64_t step, double rate, const LambOptions& o, bool decay) {
    std::vector<double> u(p.size());
    double parameter_squares = 0, update_squares = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(o.beta1, static_cast<double>(step)));
      const double v_hat = v[i] / (1 - std::pow(o.beta2, static_cast<double>(step)));
      u[i] = m_hat / (std::sqrt(v_hat) + o.epsilon) + (decay ? o.weight_decay * p[i] : 0);
      parameter_squares += p[i] * p[i];
      update_squares += u[i] * u[i];
    }
    double ratio = 1;
    if (parameter_squares > 0 && update_squares > 0)
      ratio = std::min(std::sqrt(parameter_squares), o.clamp) / std::sqrt(update_squares);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * ratio * u[i];
  }
};

double relative_distance(const std::vector<float>& ours, const std::vector<double>& formula) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    difference += (ours[i] - formula[i]) * (ours[i] - formula[i]);
    norm += formula[i] * formula[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("lamb: a hundred steps follow the formula to a millionth, with and without decay, clamped or not") {
  for (const bool decay : {true, false})
    for (const double clamp : {1e4, 0.5}) {
      CAPTURE(decay);
      CAPTURE(clamp);
      LambOptions options;
      options.clamp = clamp;
      const auto start = noise(10'007, 1, 0.05);
      Ours ours(start);
      Formula formula(start);
      for (std::uint64_t step = 1; step <= 100; ++step) {
        const auto gradients = noise(start.size(), 100 + step, 0.01);
        ours.step(gradients, step, 0.01, options, decay);
        formula.step(gradients, step, 0.01, options, decay);
      }
      CHECK(relative_distance(ours.parameters, formula.p) <= 1e-6);
    }
}

TEST_CASE("lamb: a tensor of zeros still moves, and a gradient of zeros moves nothing but the decay") {
  Ours zeros(std::vector<float>(3, 0.0F));
  zeros.step({1, -1, 1}, 1, 0.1, {}, false);
  CHECK(zeros.parameters[0] == doctest::Approx(-0.1));
  CHECK(zeros.parameters[1] == doctest::Approx(0.1));
  Ours still({1, 2, 3});
  still.step({0, 0, 0}, 1, 0.1, {}, false);
  CHECK(still.parameters == std::vector<float>{1, 2, 3});
}

TEST_CASE("lamb, clipping: one, two and four threads give the same bits") {
  const auto start = noise(300'001, 7, 0.05);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    at::set_num_threads(threads);
    Ours ours(start);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      auto gradients = noise(start.size(), step, 0.1);
      clip_norm(gradients, 1.0);
      ours.step(gradients, step, 0.01, {}, true);
    }
    results.push_back(ours.parameters);
  }
  at::set_num_threads(1);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("clipping: only a norm above the bound is scaled down, to the bound") {
  std::vector<float> values = {3, 4};
  CHECK(clip_norm(values, 6) == 5);
  CHECK(values == std::vector<float>{3, 4});
  CHECK(clip_norm(values, 1) == 5);
  CHECK(std::sqrt(sum_of_squares(values)) == doctest::Approx(1));
  CHECK(clip_norm(values, 0) == doctest::Approx(1));  // no bound
  auto many = noise(100'000, 3, 1);
  const double before = clip_norm(many, 2.5);
  CHECK(before > 100);
  CHECK(std::sqrt(sum_of_squares(many)) == doctest::Approx(2.5));
}

TEST_CASE("clipping: a norm that is not finite is told and nothing is touched") {
  std::vector<float> values = {1, std::numeric_limits<float>::infinity()};
  CHECK_FALSE(std::isfinite(clip_norm(values, 1)));
  CHECK(values[0] == 1);
  values[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(std::isfinite(clip_norm(values, 1)));
}

}  // namespace collab::optim
