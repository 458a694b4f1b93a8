#include "net/hello.hpp"

#include "base/frame.hpp"

#include <limits>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

Hello good() {
  Hello hello;
  hello.run = "bengali-1";
  hello.software = "collab 0.1";
  hello.listen.emplace_back("[::]:4600");
  return hello;
}

}  // namespace

TEST_CASE("hello: it survives the trip, and unknown fields are skipped") {
  Hello hello = good();
  hello.incarnation = ~std::uint64_t(0);
  hello.features = {"fast", "relay"};
  const auto back = decode_hello(encode_head(hello));
  REQUIRE(back);
  CHECK(back->run == hello.run);
  CHECK(back->incarnation == hello.incarnation);
  CHECK(back->features == hello.features);

  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  packer.pack_map(2).pack("run").pack("x").pack("of_version_7").pack(1);
  const auto newer = decode_hello(std::as_bytes(std::span(buffer.data(), buffer.size())));
  REQUIRE(newer);
  CHECK(newer->run == "x");
}

TEST_CASE("hello: every field out of its bounds is refused, and so is every prefix of one") {
  const auto refused = [](auto spoil) {
    Hello hello = good();
    spoil(hello);
    return !decode_hello(encode_head(hello));
  };
  CHECK(refused([](Hello& h) { h.run = ""; }));
  CHECK(refused([](Hello& h) { h.run = "Upper"; }));
  CHECK(refused([](Hello& h) { h.run = std::string(65, 'a'); }));
  CHECK(refused([](Hello& h) { h.version_min = 2; }));
  CHECK(refused([](Hello& h) { h.software = std::string(65, 'a'); }));
  CHECK(refused([](Hello& h) { h.token.resize(513); }));
  CHECK(refused([](Hello& h) { h.listen.resize(9); }));
  CHECK(refused([](Hello& h) { h.roles.resize(9); }));
  CHECK(refused([](Hello& h) { h.features.resize(33); }));
  CHECK(refused([](Hello& h) { h.moves.resize(31); }));
  CHECK(refused([](Hello& h) { h.moves.resize(33); }));
  CHECK(refused([](Hello& h) { h.time_ms = -1; }));
  CHECK(refused([](Hello& h) { h.time_ms = std::numeric_limits<std::int64_t>::min(); }));
  CHECK(refused([](Hello& h) { h.time_ms = (std::int64_t(1) << 53U) + 1; }));
  CHECK(refused([](Hello& h) { h.software = "collab\x1b[2J"; }));
  CHECK(refused([](Hello& h) { h.software = "collab\x7f"; }));
  CHECK(refused([](Hello& h) { h.roles = {"full\n"}; }));
  CHECK(refused([](Hello& h) { h.features = {"caf\xc3\xa9"}; }));
  const Bytes whole = encode_head(good());
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(decode_hello(std::span(whole).first(size)));
}

TEST_CASE("hello: version, run and clock are judged in this order") {
  Hello ours = good();
  Hello theirs = good();
  CHECK_FALSE(judge(theirs, ours, 60'000));
  CHECK(judge(theirs, ours, 60'001)->reason == "clock");
  theirs.run = "other";
  CHECK(judge(theirs, ours, 60'001)->reason == "run");
  theirs.version_min = theirs.version_max = 9;
  CHECK(judge(theirs, ours, 60'001)->reason == "version");
  theirs.version_min = 1;
  ours.version_max = 3;
  CHECK(common_version(ours, theirs) == 3);
}

TEST_CASE("hello: a refusal's words are fit for a terminal") {
  Refuse refuse;
  refuse.reason = "busy\r";
  refuse.text = "\x1b]0;mine\x07 come back, caf\xc3\xa9 \xc2\x9b\xff";
  CHECK(to_refusal(refuse).reason == "busy?: ?]0;mine? come back, caf\xc3\xa9 ??");
}

}  // namespace collab::net
