// What the simulator finds at the end of a run.

#include "sim/invariants.hpp"

#include "sim/simulation.hpp"

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

Digest parameters(unsigned char kind) {
  Digest digest{};
  digest[0] = kind;
  return digest;
}

CodecMap one_value() {
  Schema schema;
  schema.tensors.push_back({"x", DType::float32, {1}, TensorRole::gradient});
  return CodecMap(schema, CodecOptions::all(CodecId::float32));
}

struct Judged {
  Simulation world;
  Invariants invariants{world.clock(), InvariantOptions(one_value())};
  /// Peer 0 is at epoch 5.
  Judged() { step(0, 4, 0, 5); }
  void step(std::size_t peer, std::uint64_t epoch, unsigned char before, unsigned char after) {
    StepTaken step;
    step.peer = peer;
    step.epoch = epoch;
    step.before = parameters(before);
    step.after = parameters(after);
    invariants.stepped(step);
  }
  bool agree() const { return !invariants.violations().has("agree"); }
};

}  // namespace

TEST_CASE("sim invariants: who holds other parameters at the end is found") {
  Judged books;
  books.invariants.ended(0, 5, parameters(5), 5);
  CHECK(books.invariants.violations().count() == 0);
  books.invariants.ended(1, 5, parameters(9), 5);
  CHECK(books.invariants.violations().has("rejoin"));
}

TEST_CASE(
    "sim invariants: a result that died with the only one who had it is made anew, and not one that others have") {
  Judged books;
  books.step(1, 4, 0, 5);
  books.step(0, 5, 5, 6);
  SUBCASE("nobody else had it") {
    books.invariants.died(0);
    books.step(1, 5, 5, 7);
    books.invariants.restored(0, 6, parameters(6));  // from its disk
    CHECK(books.agree());
    books.invariants.restored(0, 6, parameters(7));
    books.step(1, 6, 7, 8);
    books.step(0, 6, 7, 8);
    CHECK(books.agree());
    books.invariants.ended(0, 7, parameters(8), 7);
    CHECK(books.invariants.violations().count() == 0);
  }
  SUBCASE("it goes back to where the others still are") {
    books.step(2, 4, 0, 5);
    books.invariants.died(0);
    books.invariants.restored(0, 5, parameters(5));
    for (const std::size_t peer : {0U, 1U, 2U}) books.step(peer, 5, 5, 7);
    CHECK(books.agree());
  }
  SUBCASE("it is alive") {
    books.step(1, 5, 5, 7);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("another one had it") {
    books.step(2, 4, 0, 5);
    books.step(1, 5, 5, 6);
    books.invariants.died(0);
    books.step(2, 5, 5, 7);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("another one had fetched the round") {
    books.step(2, 4, 0, 5);
    books.invariants.died(0);
    books.step(1, 5, 5, 6);
    books.step(2, 5, 5, 6);
    books.step(1, 6, 6, 7);
    books.step(2, 6, 6, 8);
    CHECK_FALSE(books.agree());
  }
}

TEST_CASE("sim invariants: who was spoilt has three epochs to heal, and is found when it has not") {
  Judged early;
  early.invariants.spoilt(1, parameters(9));
  early.invariants.ended(1, 5, parameters(9), 7);
  CHECK(early.invariants.violations().count() == 0);
  early.invariants.ended(1, 5, parameters(9), 8);
  CHECK(early.invariants.violations().count() == 1);
  Judged healed;
  healed.invariants.spoilt(1, parameters(9));
  healed.invariants.restored(1, 5, parameters(5));
  healed.invariants.ended(1, 5, parameters(8), 6);
  CHECK(healed.invariants.violations().count() == 1);
}

}  // namespace collab::sim
