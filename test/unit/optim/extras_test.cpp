#include "optim/extras.hpp"

#include "epoch/manifest_options.hpp"
#include "optim/gradient_trainer.hpp"
#include "optim/lamb_optimizer.hpp"
#include "optim/local_trainer.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

struct TrackingPeer {
  explicit TrackingPeer(const node::Mode& mode = {})
      : weight(at::full({3}, 0.5, at::kFloat).requires_grad_()),
        statistic(at::full({2}, 1, at::kFloat)),
        counter(at::full({}, 10, at::kLong)),
        stepper({{"weight", weight}}, lamb({}), {}),
        trainer(make_trainer(stepper, mode)) {
    trainer->track("norm.mean", statistic);
    trainer->track("norm.count", counter);
  }
  /// A microbatch whose forward leaves its mark in what is tracked.
  void compute(float mean, std::int64_t more, std::uint64_t samples) {
    statistic.fill_(mean);
    counter += more;
    weight.sum().backward();
    REQUIRE(trainer->add_microbatch({samples, Work()}, 1) == Microbatch::counted);
  }
  at::Tensor weight, statistic, counter;
  Stepper stepper;
  std::unique_ptr<ModelTrainer> trainer;
};

std::vector<float> handed_over(TrackingPeer& peer) {
  std::vector<float> values(peer.trainer->values());
  (void)peer.trainer->hand_over(values);
  return values;
}

}  // namespace

TEST_CASE("extras: floats become the mean of all peers, integers grow by the mean of their growth") {
  for (const node::Mode& mode : {node::Mode(), node::Mode::local(), node::Mode::diloco(2)}) {
    CAPTURE(node::to_string(mode));
    TrackingPeer one(mode), other(mode);
    REQUIRE(one.trainer->values() == 6);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      one.compute(3, 2, 6);
      other.compute(7, 5, 2);
      const auto from_one = handed_over(one);
      const auto from_other = handed_over(other);
      std::vector<float> mean(6);
      for (std::size_t i = 0; i < 6; ++i) mean[i] = 0.75F * from_one[i] + 0.25F * from_other[i];
      for (TrackingPeer* peer : {&one, &other}) {
        peer->statistic.fill_(100);  // a microbatch that nobody counts
        std::vector<float> averaged = mean;
        (void)peer->trainer->take_step(averaged, epoch, Work());
        CHECK(peer->statistic[0].item<float>() == 100);  // not before the border
        peer->trainer->adopt();
        CHECK(peer->statistic[0].item<float>() == 4);
        CHECK(peer->statistic[1].item<float>() == 4);
        CHECK(peer->counter.item<std::int64_t>() == 13 + 3 * static_cast<std::int64_t>(epoch));  // 2.75 is 3
      }
    }
    CHECK(bool(one.trainer->snapshot().find("extra")->bytes == other.trainer->snapshot().find("extra")->bytes));
  }
}

TEST_CASE("extras: a joiner takes all that is tracked from the state, integers to the last digit") {
  TrackingPeer donor, joiner;
  donor.compute(0.1F, (std::int64_t(1) << 40) + 1, 4);
  auto values = handed_over(donor);
  values[5] = 1;  // a count that float32 holds
  (void)donor.trainer->take_step(values, 0, Work());
  donor.trainer->adopt();
  donor.compute(8, 3, 4);  // its own, of the epoch that is being gathered
  const state::Snapshot state = donor.trainer->snapshot();
  REQUIRE(joiner.trainer->restore(state));
  CHECK(joiner.statistic[1].item<float>() == 0.1F);
  CHECK(joiner.counter.item<std::int64_t>() == 11);
  CHECK(bool(joiner.trainer->snapshot().find("extra")->bytes == state.find("extra")->bytes));

  Stepper bare_stepper({{"weight", at::full({3}, 0.5, at::kFloat).requires_grad_()}}, lamb({}), {});
  GradientTrainer bare(bare_stepper);
  CHECK_FALSE(bare.restore(state).has_value());  // it tracks nothing
  CHECK_FALSE(joiner.trainer->restore(bare.snapshot()).has_value());
  CHECK(joiner.counter.item<std::int64_t>() == 11);
}

TEST_CASE("extras: what is not finite goes out as what was agreed on, and comes in not at all") {
  TrackingPeer peer;
  peer.compute(std::numeric_limits<float>::infinity(), 1, 4);
  auto values = handed_over(peer);
  CHECK(values[3] == 1);
  CHECK(values[5] == 1);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  (void)peer.trainer->take_step(values, 0, Work());
  peer.trainer->adopt();
  CHECK(std::isinf(peer.statistic[0].item<float>()));
  const auto again = handed_over(peer);
  CHECK(again[4] == 1);
  CHECK(again[5] == 1);
}

TEST_CASE("extras: a failed round gives back the samples, and what is tracked is handed over as it is then") {
  TrackingPeer peer;
  peer.compute(3, 1, 4);
  std::vector<float> values(peer.trainer->values());
  const Gathered behind = peer.trainer->hand_over(values);
  peer.compute(5, 1, 4);
  REQUIRE(peer.trainer->give_back(values, behind) == 0);
  CHECK(peer.trainer->samples() == 8);
  const auto again = handed_over(peer);
  CHECK(bool(again == std::vector<float>{1, 1, 1, 5, 5, 2}));
}

TEST_CASE("extras: only what can be averaged is tracked, each under a name of its own") {
  Extras extras;
  extras.track("a", at::full({2}, 1, at::kFloat));
  CHECK_THROWS_AS(extras.track("a", at::full({2}, 1, at::kFloat)), Failure);
  CHECK_THROWS_AS(extras.track("", at::full({2}, 1, at::kFloat)), Failure);
  CHECK_THROWS_AS(extras.track("b", at::full({2}, 1, at::kHalf)), Failure);
  CHECK_THROWS_AS(extras.track("c", at::Tensor()), Failure);
  CHECK(extras.values() == 2);
  REQUIRE(extras.tensors().size() == 1);
  CHECK(extras.tensors()[0].role == TensorRole::extra);
}

TEST_CASE(
    "extras: a round carries an epoch's part of parameters and statistics, and what is tracked, each by its codec") {
  Schema tensors;
  tensors.tensors = {{"a", DType::float32, {6}, TensorRole::parameter},
                     {"b", DType::float32, {5}, TensorRole::parameter},
                     {"c", DType::float32, {2}, TensorRole::extra}};
  CodecOptions codecs;
  codecs.gradient = CodecId::float16;
  codecs.statistic = CodecId::bfloat16;
  codecs.extra = CodecId::float32;
  const auto runs = [&](const std::string& mode) {
    const CodecMap map(epoch::round_schema(tensors, node::parse_mode(mode).value()), codecs);
    return std::vector<CodecRun>(map.runs().begin(), map.runs().end());
  };
  const CodecRun parameters{11, CodecId::float16};
  CHECK(bool(runs("synchronous") == std::vector<CodecRun>{parameters, {13, CodecId::float32}}));
  CHECK(bool(runs("local,average_statistics=exp_avg") ==
             std::vector<CodecRun>{parameters, {22, CodecId::bfloat16}, {24, CodecId::float32}}));
  CHECK(bool(runs("diloco,fragments=4,average_statistics=exp_avg,state_averaging_every=3") ==
             std::vector<CodecRun>{{3, CodecId::float16}, {7, CodecId::bfloat16}, {9, CodecId::float32}}));
}

}  // namespace collab::optim
