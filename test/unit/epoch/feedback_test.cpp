// Rounds among plain objects, and what the peers owe after them.

#include "epoch/feedback.hpp"

#include "averaging/all_reduce.hpp"
#include "averaging/participant.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

using averaging::Rank;

constexpr std::size_t kUnitsOfEach = 2;

CodecMap map_of(std::size_t values, CodecId codec) {
  const Schema schema = {{{"all", DType::float32, {static_cast<std::int64_t>(values)}, TensorRole::gradient}}};
  CodecOptions options = CodecOptions::all(codec);
  options.coarse_values_min = 0;
  return {schema, options};
}

/// Some peers that average again and again, each an owner of as much as the others.
class FedSwarm {
 public:
  FedSwarm(std::size_t peers, CodecId codec) : map(map_of(peers * kUnitsOfEach * kUnitValues, codec)) {
    for (std::size_t i = 0; i < peers; ++i) {
      Identity::Seed seed{};
      seed[0] = static_cast<unsigned char>(i + 1);
      identities.push_back(Identity::generate(seed));
    }
    std::sort(identities.begin(), identities.end(), [](const auto& a, const auto& b) { return a.id() < b.id(); });
    for (std::size_t i = 0; i < peers; ++i) feedback.push_back(std::make_unique<Feedback>(map));
  }

  matchmaking::Group group(std::uint64_t epoch) const {
    matchmaking::Group group;
    group.epoch = epoch;
    group.codec_map = averaging::codec_map_digest(map);
    group.chunk_units = 1;
    for (const Identity& identity : identities) {
      matchmaking::Member member;
      member.id = identity.id();
      member.weight_max = 1000;
      member.units = kUnitsOfEach;
      group.roster.push_back(member);
    }
    return matchmaking::seal(std::move(group));
  }

  EncodeOptions options(std::size_t peer, const matchmaking::Group& group) const {
    return averaging::part_options(group, identities[peer].id());
  }

  /// The round of `group` with what the peers bring. Of the parts of the last peer only `parts_max` arrive; then it is
  /// lost.
  std::shared_ptr<const averaging::CommittedRound> average(const matchmaking::Group& group,
                                                           const std::vector<std::vector<float>>& values,
                                                           const std::vector<std::uint64_t>& weights,
                                                           std::size_t parts_max = 1'000'000) const {
    const auto shape = averaging::Shape::of(group, map).value();
    std::vector<averaging::Guard> guards(values.size());
    std::vector<std::unique_ptr<averaging::Participant>> peers;
    for (std::size_t i = 0; i < values.size(); ++i) {
      averaging::Contribution own;
      own.values = values[i];
      own.weights = weights[i];
      own.part = options(i, group);
      averaging::Participant::Setup setup{shape, identities[i], averaging::weighted_mean(), guards[i], own,
                                          {},    nullptr};
      peers.push_back(std::make_unique<averaging::Participant>(std::move(setup)));
      peers.back()->start();
    }
    const std::size_t last = values.size() - 1;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t from = 0; from < peers.size(); ++from) {
        std::vector<std::pair<averaging::Ranks, Frame>> out;
        for (auto& outgoing : peers[from]->take_outgoing()) out.emplace_back(outgoing.to, outgoing.frame);
        for (std::size_t to = 0; to < peers.size(); ++to) {
          if (from == last && parts_max == 0) continue;
          Frame part = peers[from]->next_part(static_cast<Rank>(to));
          if (part == nullptr) continue;
          if (from == last) --parts_max;
          out.emplace_back(averaging::bit(static_cast<Rank>(to)), std::move(part));
        }
        moved = moved || !out.empty();
        for (const auto& [ranks, frame] : out)
          for (std::size_t to = 0; to < peers.size(); ++to)
            if (averaging::contains(ranks, to)) (void)peers[to]->on_frame(identities[from].id(), frame);
      }
      if (!moved && parts_max == 0 && peers[0]->state() == averaging::Commit::State::running) {
        for (std::size_t to = 0; to < last; ++to) peers[to]->suspect(averaging::bit(static_cast<Rank>(last)));
        moved = true;
      }
    }
    REQUIRE(peers[0]->state() == averaging::Commit::State::committed);
    return peers[0]->committed_round();
  }

  std::vector<float> mean(const averaging::CommittedRound& round) const {
    std::vector<float> values(map.length());
    round.apply(values);
    return values;
  }

  CodecMap map;
  std::vector<Identity> identities;
  std::vector<std::unique_ptr<Feedback>> feedback;
};

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform() + random.uniform() + random.uniform() - 1.5);
  return values;
}

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
      swarm.feedback[peer]->settle(*round, swarm.identities[peer].id());
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
      for (std::size_t peer = 0; peer < 3; ++peer) swarm.feedback[peer]->settle(*round, swarm.identities[peer].id());
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
  feedback.settle(*swarm.average(first, values, {3, 5}), swarm.identities[0].id());
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
  feedback.missed(*swarm.average(first, values, {3, 5}), swarm.identities[0].id());
  CHECK(std::equal(owed.begin(), owed.end(), feedback.owed().begin()));
  feedback.add_to(handed_over, 7, second, swarm.options(0, second));
  values[0] = handed_over;
  feedback.missed(*swarm.average(second, values, {7, 5}), swarm.identities[0].id());
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
  feedback.settle(*round, swarm.identities[2].id());
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

TEST_CASE("feedback: what is owed begins at zero, ends with the state, and never makes a gradient infinite") {
  FedSwarm swarm(2, CodecId::topk);
  Feedback& feedback = *swarm.feedback[0];
  const auto group = swarm.group(1);
  const auto gradient = noise(swarm.map.length(), 1);
  std::vector<std::vector<float>> values = {gradient, gradient};
  feedback.add_to(values[0], 1000, group, swarm.options(0, group));
  CHECK(values[0] == gradient);
  feedback.settle(*swarm.average(group, values, {1000, 1}), swarm.identities[0].id());
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
  feedback.settle(*swarm.average(group, values, {1000, 1}), swarm.identities[0].id());
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
      swarm.feedback[0]->settle(*swarm.average(group, values, {8, 8}), swarm.identities[0].id());
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
    feedback.settle(*swarm.average(group, values, {5, 5}), self);
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
  feedback.missed(*second, self);  // nothing was sent in that epoch
  CHECK_FALSE(feedback.owed().empty());
  for (const bool fetched : {false, true}) {
    owe(1);
    send(2);
    fetched ? feedback.missed(*second, self) : feedback.settle(*second, self);
    CHECK(feedback.owed().empty());
  }
  owe(1);
  send(2);
  feedback.missed(*retried, self);
  CHECK(feedback.owed().empty());

  owe(1);
  send(3);
  feedback.missed(*second, self);  // of an epoch before
  CHECK_FALSE(feedback.owed().empty());
}

TEST_CASE("feedback: a step alone pays all that is owed") {
  FedSwarm swarm(2, CodecId::topk);
  Feedback& feedback = *swarm.feedback[0];
  const auto group = swarm.group(1);
  const auto gradient = noise(swarm.map.length(), 1);
  std::vector<std::vector<float>> values = {gradient, gradient};
  feedback.add_to(values[0], 6, group, swarm.options(0, group));
  feedback.settle(*swarm.average(group, values, {6, 1}), swarm.identities[0].id());
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
    const CodecMap map = map_of(kUnitValues, codec);
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
