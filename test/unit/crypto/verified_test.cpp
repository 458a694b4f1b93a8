#include "crypto/verified.hpp"

#include "support/doctest.hpp"

namespace collab {
namespace {

Signed statement_of(std::uint64_t sequence) {
  Signed draft;
  draft.domain = Domain::record;
  draft.sequence = sequence;
  draft.expires_ms = 99;
  draft.payload = Bytes(300, std::byte(7));
  return sign(Identity::generate({1}), "run", std::move(draft));
}

}  // namespace

TEST_CASE("verified: what was genuine once is so again, in its run") {
  VerifiedStatements verified;
  const Signed said = statement_of(3);
  for (int time = 0; time < 3; ++time) {
    CHECK(verified.verify(encode(said), "run"));
    CHECK(verified.verify(encode(said), "other").error() == Errc::denied);
  }
}

TEST_CASE("verified: a genuine statement vouches for none that differs in any field") {
  VerifiedStatements verified;
  CHECK(verified.verify(encode(statement_of(3)), "run"));
  const auto denied = [&](auto change) {
    Signed said = statement_of(3);
    change(said);
    CHECK(verified.verify(encode(said), "run").error() == Errc::denied);
  };
  denied([](Signed& said) { said.domain = Domain::ban; });
  denied([](Signed& said) { said.signer = Identity::generate({2}).id(); });
  denied([](Signed& said) { ++said.sequence; });
  denied([](Signed& said) { ++said.expires_ms; });
  denied([](Signed& said) { said.payload.push_back(std::byte{0}); });
  denied([](Signed& said) { said.signature[10] ^= 1U; });
}

TEST_CASE("verified: more statements than are remembered are verified all the same") {
  VerifiedStatements verified(2);
  for (int pass = 0; pass < 2; ++pass)
    for (std::uint64_t sequence = 0; sequence < 7; ++sequence)
      CHECK(verified.verify(encode(statement_of(sequence)), "run"));
}

}  // namespace collab
