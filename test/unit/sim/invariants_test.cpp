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
  Judged() {
    StepTaken step;
    step.epoch = 4;
    step.after = parameters(5);
    invariants.stepped(step);
  }
};

}  // namespace

TEST_CASE("sim invariants: who holds other parameters at the end is found") {
  Judged books;
  books.invariants.ended(0, 5, parameters(5), 5);
  CHECK(books.invariants.violations().count() == 0);
  books.invariants.ended(1, 5, parameters(9), 5);
  CHECK(books.invariants.violations().has("rejoin"));
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
