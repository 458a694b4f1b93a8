// Rounds among plain objects, and what the peers owe after them.

#include "epoch/feedback.hpp"

#include "unit/epoch/fed_swarm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

using averaging::Rank;

double length_of(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

/// loss(p) = mean of c (p - t)^2 / 2. Each peer sees gradients with noise of its own.
struct Bowl {
  explicit Bowl(std::size_t values) : target(noise(values, 1)), curvature(values) {
    const auto spread = noise(values, 2);
    for (std::size_t i = 0; i < values; ++i) curvature[i] = std::exp2(spread[i]);
  }
  double loss(const std::vector<float>& p) const {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) sum += 0.5 * curvature[i] * (p[i] - target[i]) * (p[i] - target[i]);
    return sum / static_cast<double>(p.size());
  }
  std::vector<float> gradient(const std::vector<float>& p, std::uint64_t seed) const {
    std::vector<float> values = noise(p.size(), seed);
    for (std::size_t i = 0; i < p.size(); ++i) values[i] = 0.5F * values[i] + curvature[i] * (p[i] - target[i]);
    return values;
  }
  std::vector<float> target;
  std::vector<float> curvature;
};

double trained(CodecId codec, bool feeds_back) {
  constexpr std::size_t kPeers = 2;
  constexpr std::uint64_t kSteps = 250;
  FedSwarm swarm(kPeers, codec);
  const Bowl bowl(swarm.map.length());
  std::vector<float> parameters(swarm.map.length());
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto group = swarm.group(step);
    std::vector<std::vector<float>> values;
    for (std::size_t peer = 0; peer < kPeers; ++peer) {
      values.push_back(bowl.gradient(parameters, kPeers * step + peer + 10));
      if (feeds_back) swarm.feedback[peer]->add_to(values[peer], 8 + 8 * peer, group, swarm.options(peer, group));
    }
    const auto round = swarm.average(group, values, {8, 16});
    for (std::size_t peer = 0; peer < kPeers && feeds_back; ++peer)
      settle(*swarm.feedback[peer], round, swarm.identities[peer].id());
    const auto mean = swarm.mean(*round);
    for (std::size_t i = 0; i < mean.size(); ++i) parameters[i] -= 0.02F * mean[i];
  }
  return bowl.loss(parameters);
}

}  // namespace

TEST_CASE("feedback: over any number of rounds, what arrived and what is owed is what the peers had, by weight") {
  for (const CodecId codec : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(static_cast<int>(codec));
    FedSwarm swarm(3, codec);
    std::vector<double> brought(swarm.map.length());
    std::vector<double> arrived(swarm.map.length());
    for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
      const auto group = swarm.group(epoch);
      const std::vector<std::uint64_t> weights = {1 + epoch, 100, 1000 - 199 * epoch};
      std::vector<std::vector<float>> values;
      for (std::size_t peer = 0; peer < 3; ++peer) {
        values.push_back(noise(swarm.map.length(), 10 * epoch + peer));
        for (std::size_t i = 0; i < brought.size(); ++i) brought[i] += double(weights[peer]) * values[peer][i];
        swarm.feedback[peer]->add_to(values[peer], weights[peer], group, swarm.options(peer, group));
      }
      const auto round = swarm.average(group, values, weights);
      for (std::size_t peer = 0; peer < 3; ++peer) settle(*swarm.feedback[peer], round, swarm.identities[peer].id());
      const auto mean = swarm.mean(*round);
      for (std::size_t i = 0; i < mean.size(); ++i) arrived[i] += double(round->weight()) * mean[i];
    }
    const double all = length_of(brought);
    std::vector<double> missing = brought;
    for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= arrived[i];
    CHECK(length_of(missing) > 0.1 * all);
    for (const auto& feedback : swarm.feedback)
      for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= feedback->owed()[i];
    CHECK(length_of(missing) < 1e-3 * all);  // averages are float16
  }
}

TEST_CASE("feedback: a failed round changes nothing, to the bit") {
  FedSwarm swarm(2, CodecId::topk);
  Feedback& feedback = *swarm.feedback[0];
  const auto first = swarm.group(1);
  std::vector<std::vector<float>> values = {noise(swarm.map.length(), 1), noise(swarm.map.length(), 2)};
  feedback.add_to(values[0], 3, first, swarm.options(0, first));
  settle(feedback, swarm.average(first, values, {3, 5}), swarm.identities[0].id());
  const std::vector<float> owed(feedback.owed().begin(), feedback.owed().end());
  CHECK(std::count(owed.begin(), owed.end(), 0.0F) < static_cast<std::ptrdiff_t>(owed.size() / 16));

  const auto second = swarm.group(2);
  const auto gradient = noise(swarm.map.length(), 3);
  auto handed_over = gradient;
  feedback.add_to(handed_over, 7, second, swarm.options(0, second));
  CHECK(handed_over != gradient);
  feedback.restore(handed_over);
  CHECK(handed_over == gradient);
  CHECK(std::equal(owed.begin(), owed.end(), feedback.owed().begin()));

  // it has failed here only: the round is fetched later, and this peer was in it
  settle(feedback, swarm.average(first, values, {3, 5}), swarm.identities[0].id(), true);
  CHECK(std::equal(owed.begin(), owed.end(), feedback.owed().begin()));
  feedback.add_to(handed_over, 7, second, swarm.options(0, second));
  values[0] = handed_over;
  settle(feedback, swarm.average(second, values, {7, 5}), swarm.identities[0].id(), true);
  CHECK_FALSE(std::equal(owed.begin(), owed.end(), feedback.owed().begin()));
}

TEST_CASE("feedback: what did not reach a chunk in time stays owed, and the rest is settled") {
  FedSwarm swarm(3, CodecId::topk);
  Feedback& feedback = *swarm.feedback[2];
  std::vector<std::vector<float>> values;
  for (std::uint64_t peer = 0; peer < 3; ++peer) values.push_back(noise(swarm.map.length(), peer));
  const auto group = swarm.group(1);
  feedback.add_to(values[2], 4, group, swarm.options(2, group));
  const auto round = swarm.average(group, values, {1, 2, 4}, 2);
  settle(feedback, round, swarm.identities[2].id());
  std::size_t counted = 0;
  std::size_t chunks = 0;
  for (std::size_t index = 0; index < round->results().size(); ++index) {
    for (std::size_t i = 0; i < round->results()[index].chunks().size(); ++i, ++chunks) {
      const Range range = round->shape().partition.chunk(round->shape().members.segments[index], i);
      const auto owed = feedback.owed().subspan(range.begin, range.size);
      const bool settled = std::any_of(owed.begin(), owed.end(), [](float value) { return value != 0; });
      CHECK(settled == averaging::contains(round->results()[index].chunks()[i].senders, Rank(2)));
      counted += settled ? 1U : 0U;
    }
  }
  CHECK(counted > 0);
  CHECK(counted < chunks);
}

TEST_CASE("feedback: only runs of codecs that owe do, wherever in a unit their borders lie") {
  // in units of 4096: a border at 1.46 and at 1.49; the norm is too small for a coarse codec, statistics are no
  // gradient
  const auto tensor = [](const char* name, std::int64_t values, TensorRole role) {
    return TensorInfo{name, DType::float32, {values}, role};
  };
  const Schema schema = {{tensor("a", 6000, TensorRole::gradient), tensor("norm", 100, TensorRole::gradient),
                          tensor("b", 5000, TensorRole::gradient), tensor("c", 5284, TensorRole::statistic)}};
  for (const CodecId codec : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(static_cast<int>(codec));
    CodecOptions options = CodecOptions::all(codec);
    options.coarse_values_min = 1000;
    FedSwarm swarm(2, CodecMap(schema, options));
    REQUIRE(swarm.map.parts().runs().size() == 4);
    Feedback& feedback = *swarm.feedback[0];
    std::vector<float> owed(swarm.map.length());
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      const auto group = swarm.group(epoch);
      const auto gradient = noise(swarm.map.length(), epoch);
      std::vector<std::vector<float>> values = {gradient, gradient};
      feedback.add_to(values[0], 4, group, swarm.options(0, group));
      const auto owes_at = [](std::size_t i) { return i < 6000 || (i >= 6100 && i < 11'100); };
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < owed.size(); ++i) wrong += values[0][i] != gradient[i] + owed[i] / 4 ? 1U : 0U;
      CHECK(wrong == 0);
      std::vector<float> arrived(owed.size());
      const auto bytes = swarm.map.parts().encode(values[0], 0, swarm.options(0, group));
      REQUIRE(swarm.map.parts().decode(*bytes, 0, arrived));
      settle(feedback, swarm.average(group, values, {4, 4}), swarm.identities[0].id());
      for (std::size_t i = 0; i < owed.size(); ++i) owed[i] = owes_at(i) ? (values[0][i] - arrived[i]) * 4 : 0;
      CHECK(std::ranges::equal(owed, feedback.owed()));
    }
  }
}

TEST_CASE("feedback: what is owed begins at zero, ends with the state, and never makes a gradient infinite") {
  FedSwarm swarm(2, CodecId::topk);
  Feedback& feedback = *swarm.feedback[0];
  const auto group = swarm.group(1);
  const auto gradient = noise(swarm.map.length(), 1);
  std::vector<std::vector<float>> values = {gradient, gradient};
  feedback.add_to(values[0], 1000, group, swarm.options(0, group));
  CHECK(values[0] == gradient);
  settle(feedback, swarm.average(group, values, {1000, 1}), swarm.identities[0].id());
  auto next = gradient;
  feedback.add_to(next, 1000, group, swarm.options(0, group));
  CHECK(next != gradient);

  feedback.forget();
  next = gradient;
  feedback.add_to(next, 1000, group, swarm.options(0, group));
  CHECK(next == gradient);

  // of 1000 samples with the largest gradients there are, one sample carries what is owed as far as float16 goes
  std::vector<float> large(swarm.map.length(), std::numeric_limits<float>::max() / 2000);
  values = {large, gradient};
  feedback.add_to(values[0], 1000, group, swarm.options(0, group));
  settle(feedback, swarm.average(group, values, {1000, 1}), swarm.identities[0].id());
  next.assign(next.size(), std::numeric_limits<float>::max());
  feedback.add_to(next, 1, group, swarm.options(0, group));
  CHECK(std::all_of(next.begin(), next.end(), [](float value) { return value <= 1001 * 65504.0F; }));
}

TEST_CASE("feedback: one spike is sent as float16 sends it, and not for ever") {
  for (const CodecId codec : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(static_cast<int>(codec));
    FedSwarm swarm(2, codec);
    std::vector<float> gradient(swarm.map.length(), 0.0F);
    for (std::size_t i = 0; i < gradient.size(); i += 64) gradient[i] = 1;
    for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
      CAPTURE(epoch);
      const auto group = swarm.group(epoch);
      std::vector<std::vector<float>> values = {gradient, gradient};
      if (epoch == 0) values[0][100] = 1e30F;
      const auto before = values[0];
      swarm.feedback[0]->add_to(values[0], 8, group, swarm.options(0, group));
      auto restored = values[0];
      swarm.feedback[0]->restore(restored);
      CHECK(restored == before);
      CHECK(std::abs(values[0][100]) <= 65504);
      settle(*swarm.feedback[0], swarm.average(group, values, {8, 8}), swarm.identities[0].id());
    }
    CHECK(std::abs(swarm.feedback[0]->owed()[100]) < 8);
  }
}

TEST_CASE("feedback: whoever has only a later round of its epoch, or one of another try, owes nothing any more") {
  FedSwarm swarm(2, CodecId::topk);
  const PeerId& self = swarm.identities[0].id();
  Feedback& feedback = *swarm.feedback[0];
  const auto gradient = noise(swarm.map.length(), 1);
  const std::vector<std::vector<float>> others = {gradient, gradient};
  const auto owe = [&](std::uint64_t epoch) {
    const auto group = swarm.group(epoch);
    auto values = others;
    feedback.add_to(values[0], 5, group, swarm.options(0, group));
    settle(feedback, swarm.average(group, values, {5, 5}), self);
    REQUIRE_FALSE(feedback.owed().empty());
  };
  const auto send = [&](std::uint64_t epoch) {
    auto values = gradient;
    const auto group = swarm.group(epoch);
    feedback.add_to(values, 5, group, swarm.options(0, group));
  };
  auto later = swarm.group(2);
  later.round = 2;
  auto another = swarm.group(2);
  another.attempt = 1;
  const auto second = swarm.average(matchmaking::seal(later), others, {5, 5});
  const auto retried = swarm.average(matchmaking::seal(another), others, {5, 5});

  owe(1);
  settle(feedback, second, self, true);  // nothing was sent in that epoch
  CHECK_FALSE(feedback.owed().empty());
  for (const bool fetched : {false, true}) {
    owe(1);
    send(2);
    settle(feedback, second, self, fetched);
    CHECK(feedback.owed().empty());
  }
  owe(1);
  send(2);
  settle(feedback, retried, self, true);
  CHECK(feedback.owed().empty());

  owe(1);
  send(3);
  settle(feedback, second, self, true);  // of an epoch before
  CHECK_FALSE(feedback.owed().empty());
}

TEST_CASE("feedback: a step alone pays all that is owed") {
  FedSwarm swarm(2, CodecId::topk);
  Feedback& feedback = *swarm.feedback[0];
  const auto group = swarm.group(1);
  const auto gradient = noise(swarm.map.length(), 1);
  std::vector<std::vector<float>> values = {gradient, gradient};
  feedback.add_to(values[0], 6, group, swarm.options(0, group));
  settle(feedback, swarm.average(group, values, {6, 1}), swarm.identities[0].id());
  const std::vector<float> owed(feedback.owed().begin(), feedback.owed().end());
  auto mean = gradient;
  feedback.pay(mean, 3);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) wrong += mean[i] == gradient[i] + owed[i] / 3 ? 0U : 1U;
  CHECK(wrong == 0);
  CHECK(mean != gradient);
  CHECK(feedback.owed().empty());
}

TEST_CASE("feedback: codecs that owe nothing need none") {
  for (const CodecId codec : kCodecIds) {
    const CodecMap map = gradient_map(kUnitValues, codec);
    CHECK(Feedback(map).in_use() == owes(codec));
  }
}

TEST_CASE("feedback: with it training comes as far as with float16, without it not") {
  const double reference = trained(CodecId::float16, false);
  for (const CodecId codec : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(static_cast<int>(codec));
    const double with = trained(codec, true);
    const double without = trained(codec, false);
    MESSAGE("loss with float16 " << reference << ", with feedback " << with << ", without " << without);
    CHECK(with < 1.05 * reference);
    CHECK(without > 2 * reference);
  }
}

}  // namespace collab::epoch
