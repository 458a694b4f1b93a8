#include "epoch/trainer.hpp"

#include <limits>
#include <span>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

/// One number to learn.
class OneNumber final : public Trainer {
 public:
  std::byte number{0};

  OneNumber() = default;
  OneNumber(std::byte learnt, const Work& units) : number(learnt) { ledger().add(units); }

  std::size_t values() const override { return 1; }
  std::uint64_t samples() const override { return 0; }
  Gathered hand_over(std::vector<float>&) override { return {}; }
  std::uint64_t give_back(std::span<const float>, const Gathered&) override { return 0; }
  Gathered drop() override { return {}; }
  Result<> step(std::span<float>, std::uint64_t) override { return Result<>(); }
  std::uint64_t epoch() const override { return 4; }
  Digest parameter_hash() const override { return {}; }
  double loss() const override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  state::Snapshot copy_state(std::uint64_t epoch) const override { return {epoch, {{"parameters", {number}}}}; }
  Result<> load_state(const state::Snapshot& snapshot) override {
    const state::Section* section = snapshot.find("parameters");
    if (section == nullptr || section->bytes.size() != 1) return Errc::bad_request;
    number = section->bytes.front();
    return {};
  }
};

OneNumber trained() {
  return {std::byte{7}, Work({3, 20})};
}

}  // namespace

TEST_CASE("trainer: whoever takes its state has its ledger too") {
  const OneNumber here = trained();
  OneNumber there;
  REQUIRE(there.restore(here.snapshot()));
  CHECK(there.number == std::byte{7});
  CHECK(there.ledger() == here.ledger());
  CHECK(here.snapshot().epoch == 4);
}

TEST_CASE("trainer: half a state is refused, and changes nothing") {
  const state::Snapshot whole = trained().snapshot();
  for (std::size_t left_out = 0; left_out < whole.sections.size(); ++left_out) {
    state::Snapshot half = whole;
    half.sections.erase(half.sections.begin() + static_cast<std::ptrdiff_t>(left_out));
    OneNumber trainer;
    CHECK(trainer.restore(half).error() == Errc::bad_request);
    CHECK(trainer.number == std::byte{0});
    CHECK(trainer.ledger() == data::Ledger());
  }
  state::Snapshot torn = whole;
  torn.sections.back().bytes.pop_back();
  OneNumber trainer;
  CHECK(trainer.restore(torn).error() == Errc::bad_request);
  CHECK(trainer.number == std::byte{0});
}

}  // namespace collab::epoch
