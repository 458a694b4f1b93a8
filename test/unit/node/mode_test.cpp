#include "node/mode.hpp"

#include "support/doctest.hpp"

namespace collab::node {

TEST_CASE("mode: what is written is what is read, and what is none is refused") {
  for (const Mode& mode : {Mode(), Mode::local(), Mode::local(20), Mode::diloco(), Mode::diloco(50),
                           Mode{Mode::Average::moves, 7, 0.35, 0}}) {
    CAPTURE(to_string(mode));
    const auto read = parse_mode(to_string(mode));
    REQUIRE(read.has_value());
    CHECK(*read == mode);
  }
  CHECK(parse_mode("diloco,inner_steps=50").value() == Mode::diloco(50));
  CHECK(Mode::diloco().inner_steps == 100);
  for (const char* text : {"", "synchron", "local,rate=1", "diloco,", "diloco,,", "diloco,inner_steps=0",
                           "diloco,inner_steps=1000001", "diloco,rate=0", "diloco,rate=nan", "diloco,momentum=1",
                           "diloco,inner_steps=5x", "diloco,steps=5", "diloco;rate=1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_mode(text).has_value());
  }
}

}  // namespace collab::node
