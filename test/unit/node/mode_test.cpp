#include "node/mode.hpp"

#include "support/doctest.hpp"

namespace collab::node {

TEST_CASE("mode: what is written is what is read, and what is none is refused") {
  Mode streaming = Mode::diloco(60);
  streaming.fragments = 4;
  streaming.overlap = 14;
  streaming.mix = 0.5;
  Mode local_with_statistics = Mode::local(20);
  local_with_statistics.statistics = {"exp_avg_sq", "exp_avg"};
  local_with_statistics.statistics_every = 3;
  for (const Mode& mode : {Mode(), Mode::local(), Mode::local(20), Mode::diloco(), Mode::diloco(50),
                           Mode::of_moves(7, 0.35, 0), streaming, local_with_statistics}) {
    CAPTURE(to_string(mode));
    const auto read = parse_mode(to_string(mode));
    REQUIRE(read.has_value());
    CHECK(*read == mode);
  }
  CHECK(parse_mode("diloco,inner_steps=50").value() == Mode::diloco(50));
  CHECK(Mode::diloco().inner_steps == 100);
  for (const char* text : {"",
                           "synchron",
                           "local,rate=1",
                           "diloco,",
                           "diloco,,",
                           "diloco,inner_steps=0",
                           "diloco,inner_steps=1000001",
                           "diloco,rate=0",
                           "diloco,rate=nan",
                           "diloco,momentum=1",
                           "diloco,inner_steps=5x",
                           "diloco,steps=5",
                           "diloco;rate=1",
                           "diloco,fragments=0",
                           "diloco,fragments=3",
                           "diloco,inner_steps=257,fragments=257",
                           "local,fragments=1",
                           "diloco,fragments=4,overlap=25",
                           "local,overlap=1",
                           "diloco,mix=0",
                           "diloco,mix=1.1",
                           "local,average_statistics=a+b+c+d+e",
                           "local,average_statistics=a+a",
                           "local,average_statistics=Exp",
                           "local,average_statistics=+a",
                           "synchronous,fragments=2",
                           "local,average_statistics=a,state_averaging_every=1000001"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_mode(text).has_value());
  }
}

TEST_CASE("mode: an epoch of fragments is a part of the inner steps, and statistics that are off leave no trace") {
  CHECK(parse_mode("diloco,inner_steps=60,fragments=4,overlap=14").value().epoch_steps() == 15);
  CHECK(parse_mode("local,average_statistics=exp_avg_sq").value().statistics_every == 1);
  CHECK(parse_mode("local,average_statistics=exp_avg_sq,state_averaging_every=0").value() == Mode::local());
  CHECK(parse_mode("local,state_averaging_every=0,average_statistics=exp_avg_sq").value() == Mode::local());
  CHECK(parse_mode("local,state_averaging_every=5").value() == Mode::local());
}

}  // namespace collab::node
