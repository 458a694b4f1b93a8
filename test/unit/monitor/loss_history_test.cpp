#include "monitor/loss_history.hpp"

#include "support/peers.hpp"

#include <limits>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

using test::peer;

}  // namespace

TEST_CASE("loss history: a point is the mean of who told, with its spread, and each counts once") {
  LossHistory losses;
  losses.note_training(peer(1), 7, 3.0);
  losses.note_training(peer(2), 7, 5.0);
  losses.note_training(peer(2), 7, 5.0);
  losses.note_training(peer(2), 6, 9.0);
  const auto points = losses.training().points();
  REQUIRE(points.size() == 1);
  CHECK(points[0].epoch == 7);
  CHECK(points[0].mean() == 4.0);
  CHECK(points[0].low == 3.0);
  CHECK(points[0].high == 5.0);
  CHECK(losses.heldout().points().empty());
}

TEST_CASE("loss history: what is no loss is not heard") {
  LossHistory losses;
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e7, -1e7})
    losses.note_training(peer(1), 1, loss);
  CHECK(losses.training().points().empty());
}

TEST_CASE("loss curve: a long run keeps its shape in at most 1024 points") {
  LossCurve curve;
  constexpr std::uint64_t kEpochs = 100'000;
  for (std::uint64_t epoch = 1; epoch <= kEpochs; ++epoch) curve.note(epoch, static_cast<double>(kEpochs - epoch));
  const auto points = curve.points();
  CHECK(points.size() <= LossCurve::kPointsMax);
  CHECK(points.size() > LossCurve::kPointsMax / 2);
  std::uint64_t told = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    told += points[i].told;
    CHECK(points[i].low <= points[i].mean());
    CHECK(points[i].mean() <= points[i].high);
    if (i > 0) CHECK(points[i].high < points[i - 1].low);
  }
  CHECK(told == kEpochs);
  CHECK(points.back().epoch == kEpochs);
}

TEST_CASE("loss curve: epochs from anywhere, also the end of numbers, cost no more than others") {
  LossCurve curve;
  for (std::uint64_t i = 0; i < 5000; ++i) curve.note(i * 0x9e3779b97f4a7c15U, 1);
  curve.note(~std::uint64_t(0), 1);
  CHECK(curve.points().size() <= LossCurve::kPointsMax);
  CHECK(curve.points().back().epoch == ~std::uint64_t(0));
}

}  // namespace collab::monitor
