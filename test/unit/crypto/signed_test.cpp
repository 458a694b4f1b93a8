#include "crypto/signed.hpp"

#include "base/random.hpp"
#include "crypto/fields.hpp"

#include <algorithm>
#include <string>

#include "support/doctest.hpp"

namespace collab {
namespace {

Bytes some_payload() {
  return FieldWriter().add(std::uint32_t(7)).add_text("seven").finish();
}

Signed statement() {
  return sign(Identity::generate({1}), "run",
              Signed{.domain = Domain::hold,
                     .signer = {},
                     .sequence = 3,
                     .expires_ms = 99,
                     .payload = some_payload(),
                     .signature = {}});
}

}  // namespace

TEST_CASE("signed: what was said is verified, in its run, and survives a file") {
  const Signed said = statement();
  CHECK(said.signer == Identity::generate({1}).id());
  CHECK(verify(said, "run"));
  CHECK(verify(said, "other").error() == Errc::denied);
  const auto back = decode_signed(encode(said));
  REQUIRE(back);
  CHECK(*back == said);
  CHECK(verify(*back, "run"));
}

TEST_CASE("signed: every field is covered") {
  const auto denied = [](auto change) {
    Signed said = statement();
    change(said);
    CHECK(verify(said, "run").error() == Errc::denied);
  };
  denied([](Signed& said) { said.domain = Domain::record; });
  denied([](Signed& said) { said.signer = Identity::generate({2}).id(); });
  denied([](Signed& said) { ++said.sequence; });
  denied([](Signed& said) { ++said.expires_ms; });
  denied([](Signed& said) { said.payload[2] ^= std::byte{1}; });
  denied([](Signed& said) { said.payload.push_back(std::byte{0}); });
  denied([](Signed& said) { said.signature[10] ^= 1U; });
}

TEST_CASE("signed: no other bytes decode to a statement that verifies") {
  const Bytes right = encode(statement());
  Random random(1);
  for (int attempt = 0; attempt < 500; ++attempt) {
    Bytes wrong = right;
    wrong[random.below(wrong.size())] ^= static_cast<std::byte>(1U << random.below(8));
    const auto decoded = decode_signed(wrong);
    if (decoded) CHECK_FALSE(verify(*decoded, "run"));
  }
  for (std::size_t size = 0; size < right.size(); ++size) CHECK_FALSE(decode_signed(std::span(right).first(size)));
  Bytes longer = right;
  longer.push_back(std::byte{0});
  CHECK(decode_signed(longer).error() == Errc::bad_request);
}

TEST_CASE("signed: a payload beyond the bound is refused on both sides of the wire") {
  Signed said = statement();
  said.payload.resize(kSignedPayloadBytesMax + 1);
  CHECK(verify(said, "run").error() == Errc::bad_request);
  CHECK(decode_signed(encode(said)).error() == Errc::bad_request);
  CHECK(verify(statement(), std::string(kRunIdBytesMax + 1, 'x')).error() == Errc::bad_request);
}

TEST_CASE("fields: what is written is read, little-endian, and a missing field is found at the end") {
  const Bytes bytes = FieldWriter().add(std::uint16_t(0x0102)).add_text("ab").add_blob({}).finish();
  const Bytes expected = {std::byte{2}, std::byte{1}, std::byte{2}, std::byte{'a'}, std::byte{'b'},
                          std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}};
  CHECK(bytes == expected);
  FieldReader reader(bytes);
  CHECK(reader.take<std::uint16_t>() == 0x0102);
  CHECK(reader.take_text() == "ab");
  CHECK_FALSE(reader.finish());  // a field is left
  CHECK(reader.take_blob().empty());
  CHECK(reader.finish());
  CHECK(reader.take<std::uint64_t>() == 0);
  CHECK_FALSE(reader.finish());
}

}  // namespace collab
