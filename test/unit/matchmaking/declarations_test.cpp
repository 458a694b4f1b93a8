#include "matchmaking/declarations.hpp"

#include "unit/matchmaking/terms.hpp"

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

/// Shows what a test puts there.
class Board final : public directory::Watch {
 public:
  explicit Board(std::vector<directory::Record>& records) : records_(records) {}
  const std::vector<directory::Record>& records() const override { return records_; }
  Task<bool> changed_until(TimePoint) override { co_return true; }
  void relax(Duration) override {}

 private:
  std::vector<directory::Record>& records_;
};

directory::Record declared(const PeerId& by, std::uint64_t epoch, bool reachable = true) {
  Declaration declaration;
  declaration.epoch = epoch;
  declaration.reachable = reachable;
  directory::Record record;
  record.owner = by;
  record.subkey = std::string(kDeclarationSubkey);
  record.value = encode(declaration);
  return record;
}

using Shown = std::map<PeerId, std::pair<bool, Sureness>>;

Shown shown(Declarations& declarations, std::uint64_t epoch) {
  Wanted wanted;
  wanted.epoch = epoch;
  Shown out;
  for (const Candidate& candidate : declarations.candidates(wanted))
    out[candidate.id] = {candidate.reachable, candidate.sureness};
  return out;
}

}  // namespace

TEST_CASE("declarations: who declares this round is sure, who is behind may come, who is ahead is none") {
  std::vector<PeerId> ids = {peer(1), peer(2), peer(3)};
  std::sort(ids.begin(), ids.end());
  std::vector<directory::Record> records = {declared(ids[0], 5), declared(ids[1], 4, false), declared(ids[2], 6)};
  Declarations declarations(std::make_unique<Board>(records));
  CHECK(shown(declarations, 5) == Shown{{ids[0], {true, Sureness::declared}}, {ids[1], {false, Sureness::contact}}});
  CHECK(shown(declarations, 6).size() == 3);  // the same ones, in the eyes of another round
}

TEST_CASE("declarations: what changes, comes, goes or is none is seen at the next look") {
  std::vector<PeerId> ids = {peer(1), peer(2), peer(3)};
  std::sort(ids.begin(), ids.end());
  std::vector<directory::Record> records = {declared(ids[0], 4), declared(ids[2], 5)};
  Declarations declarations(std::make_unique<Board>(records));
  CHECK(shown(declarations, 5) == Shown{{ids[0], {true, Sureness::contact}}, {ids[2], {true, Sureness::declared}}});
  records = {declared(ids[0], 5), declared(ids[1], 5), declared(ids[2], 5)};
  records[2].value.pop_back();
  CHECK(shown(declarations, 5) == Shown{{ids[0], {true, Sureness::declared}}, {ids[1], {true, Sureness::declared}}});
  records = {declared(ids[1], 5), declared(ids[2], 5)};
  records[0].subkey = "another";
  CHECK(shown(declarations, 5) == Shown{{ids[2], {true, Sureness::declared}}});
}

}  // namespace collab::matchmaking
