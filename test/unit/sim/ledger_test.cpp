// The simulator's books: which samples count twice, and which only look as if.

#include "sim/ledger.hpp"

#include "sim/simulation.hpp"

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

struct Books {
  Simulation world;
  Violations violations;
  Ledger ledger{world.clock(), violations};
};

}  // namespace

TEST_CASE("sim ledger: of two who have a sample, each may count in other segments, and no sample is left out") {
  Books books;
  const SampleRun voice{5239, 3, 27};
  const SampleRun other{5238, 6, 27};
  books.ledger.committed(0, 1, 27, {{voice}, {other}, {voice}});
  CHECK(books.violations.count() == 0);
  CHECK(books.ledger.samples(0) == Work({5238, 6}));
}

TEST_CASE("sim ledger: no sample counts twice in a segment, nor in two epochs, nor in one it was not computed for") {
  Books books;
  books.ledger.committed(0, 1, 27, {{{10, 4, 27}}, {{10, 4, 27}, {13, 4, 27}}});
  CHECK(books.violations.count() == 1);
  books.ledger.committed(0, 1, 28, {{{13, 1, 28}}});
  CHECK(books.violations.count() == 2);
  books.ledger.committed(0, 1, 29, {{{20, 1, 28}}});
  CHECK(books.violations.count() == 3);
  CHECK(books.violations.has("ledger"));
  CHECK(books.ledger.samples(0).count() == 8);
}

TEST_CASE("sim ledger: a swarm that fell in two has a sample once in each history") {
  Books books;
  books.ledger.fork(0);
  books.ledger.committed(0, 1, 3, {{{10, 4, 3}}});
  books.ledger.committed(1, 2, 3, {{{10, 4, 3}}});
  CHECK(books.violations.count() == 0);
}

}  // namespace collab::sim
