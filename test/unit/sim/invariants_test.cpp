// What the simulator finds at the end of a run.

#include "sim/invariants.hpp"

#include "base/task.hpp"
#include "sim/simulation.hpp"

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using namespace std::chrono_literals;

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

TEST_CASE("sim invariants: a result that died at once with the only one who had it is made anew, and no other one") {
  Judged books;
  books.step(1, 4, 0, 5);
  books.step(2, 4, 0, 5);
  books.step(0, 5, 5, 6);
  SUBCASE("nobody else had it") {
    books.invariants.died(0);
    books.step(1, 5, 5, 7);
    books.invariants.restored(0, 6, parameters(6));  // from its disk
    CHECK(books.agree());
    SUBCASE("and it takes the others' state") {
      books.invariants.restored(0, 6, parameters(7));
      books.step(0, 6, 7, 8);
      books.step(1, 6, 7, 8);
      CHECK(books.agree());
      books.step(2, 6, 7, 9);
      CHECK_FALSE(books.agree());
    }
    SUBCASE("and it keeps to its own") {
      books.step(0, 6, 6, 9);
      books.step(1, 6, 7, 8);
      books.invariants.ended(0, 7, parameters(9), 9);
      CHECK(books.invariants.violations().has("rejoin"));
    }
  }
  SUBCASE("it is alive") {
    books.step(1, 5, 5, 7);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("it had it for long") {
    const auto wait = [&]() -> Task<> { co_await books.world.clock().sleep_until(books.world.clock().now() + 2s); };
    books.world.run(wait());
    books.invariants.died(0);
    books.step(1, 5, 5, 7);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("another one had it, too") {
    books.step(1, 5, 5, 6);
    books.invariants.died(0);
    books.step(2, 5, 5, 7);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("another one has it a moment later, before a third one, or after it") {
    books.invariants.died(0);
    SUBCASE("before") {
      books.step(1, 5, 5, 6);
      books.step(2, 5, 5, 7);
    }
    SUBCASE("after") {
      books.step(2, 5, 5, 7);
      books.step(1, 5, 5, 6);
    }
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

TEST_CASE("sim invariants: bent parameters excuse no other ledger") {
  Judged books;
  const data::Ledger none;
  data::Ledger some;
  some.add(Work(WorkRange{3, 4}));
  books.invariants.has_ledger(0, 5, none);
  SUBCASE("of a bit that fell over") {
    books.invariants.spoilt(1, parameters(9));
  }
  SUBCASE("nor those that it handed on") {
    books.invariants.spoilt(0, parameters(9));
    books.invariants.restored(1, 5, parameters(9));
  }
  books.invariants.has_ledger(1, 5, none);
  CHECK(books.invariants.violations().count() == 0);
  books.invariants.has_ledger(1, 5, some);
  CHECK(books.invariants.violations().has("units"));
}

TEST_CASE("sim invariants: an epoch that died has a ledger of its own") {
  Judged books;
  books.step(1, 4, 0, 5);
  data::Ledger some;
  some.add(Work(WorkRange{3, 4}));
  books.step(0, 5, 5, 6);
  books.invariants.has_ledger(0, 6, some);
  books.invariants.died(0);
  books.step(1, 5, 5, 7);
  books.invariants.has_ledger(1, 6, data::Ledger());
  books.invariants.restored(0, 6, parameters(6));
  books.invariants.has_ledger(0, 6, some);
  books.step(0, 6, 6, 8);
  books.invariants.has_ledger(0, 7, some);
  CHECK(books.invariants.violations().count() == 0);
}

TEST_CASE("sim invariants: bent parameters that all have come to hold are looked at as any") {
  Judged books;
  books.invariants.add_peer(PeerId{{1}});
  books.invariants.add_peer(PeerId{{2}});
  books.step(1, 4, 0, 5);
  books.invariants.spoilt(0, parameters(9));
  SUBCASE("of two, who both have them") {
    books.invariants.restored(1, 5, parameters(9));
    books.step(0, 5, 9, 10);
    books.step(1, 5, 9, 11);
    CHECK_FALSE(books.agree());
  }
  SUBCASE("of two, of whom one has them") {
    books.step(0, 5, 9, 10);
    books.step(1, 5, 5, 6);
    CHECK(books.agree());
  }
}

}  // namespace collab::sim
