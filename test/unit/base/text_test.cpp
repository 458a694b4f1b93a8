#include "base/text.hpp"

#include "base/channel.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/metrics.hpp"
#include "sim/simulation.hpp"
#include "support/temp_folder.hpp"

#include <array>
#include <limits>
#include <string>

#include "support/doctest.hpp"

namespace collab {

TEST_CASE("base32: every byte string has exactly one text") {
  const std::array<unsigned char, 5> bytes = {0, 1, 2, 254, 255};
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto part = std::span(bytes).first(size);
    const auto back = from_base32(to_base32(part));
    REQUIRE(back);
    CHECK(std::equal(back->begin(), back->end(), part.begin(), part.end()));
  }
  CHECK_FALSE(from_base32("ab1"));  // 1 is no digit
  CHECK_FALSE(from_base32("a"));    // five bits are no byte
  CHECK_FALSE(
      from_base32("ab"
                  "b"));
  CHECK_FALSE(from_base32("ad"));  // bits left over
}

TEST_CASE("hex: round trip, and odd or foreign digits are refused") {
  const std::array<unsigned char, 3> bytes = {0, 0xab, 0xff};
  CHECK(to_hex(bytes) == "00abff");
  CHECK(from_hex("00abff").value() == std::vector<unsigned char>{0, 0xab, 0xff});
  CHECK_FALSE(from_hex("0"));
  CHECK_FALSE(from_hex("0g"));
}

TEST_CASE("nearest: a slip of the finger finds the word that was meant, nonsense finds none") {
  const std::vector<std::string> known = {"run-id", "bootstrap", "data"};
  CHECK(nearest("bootstarp", known) == "bootstrap");
  CHECK(nearest("zzzzzzzz", known).empty());
}

TEST_CASE("metrics: counters add, gauges replace, and the text has one type line a family") {
  Metrics metrics;
  metrics.add("collab_rounds_total", 1, {{"result", "committed"}});
  metrics.add("collab_rounds_total", 2, {{"result", "committed"}});
  metrics.set("collab_epoch", 7);
  metrics.observe("collab_rtt_seconds", 0.0015);
  CHECK(metrics.value("collab_rounds_total", {{"result", "committed"}}) == 3);
  const std::string text = metrics.prometheus("x");
  CHECK(text.find("# TYPE collab_epoch gauge\ncollab_epoch{run=\"x\"} 7\n") != std::string::npos);
  CHECK(text.find("collab_rtt_seconds_bucket{run=\"x\",le=\"0.002\"} 1\n") != std::string::npos);
}

TEST_CASE("metrics: help stands above the type, and what is no number is written as Prometheus reads it") {
  Metrics metrics;
  metrics.describe("collab_eta_seconds", "Until \"full\"\nor not \\.");
  metrics.describe("collab_never_set", "Nobody sees this.");
  metrics.set("collab_eta_seconds", std::numeric_limits<double>::infinity());
  metrics.set("collab_loss", std::numeric_limits<double>::quiet_NaN());
  CHECK(metrics.prometheus("x") ==
        "# HELP collab_eta_seconds Until \"full\"\\nor not \\\\.\n# TYPE collab_eta_seconds gauge\n"
        "collab_eta_seconds{run=\"x\"} +Inf\n# TYPE collab_loss gauge\ncollab_loss{run=\"x\"} NaN\n");
}

TEST_CASE("text: a stranger's words lose control characters and what is no UTF-8, and nothing else") {
  CHECK(printable("plain, \"quoted\" caf\xc3\xa9 \xe0\xa6\x95 \xf0\x9f\x8c\x8d") ==
        "plain, \"quoted\" caf\xc3\xa9 \xe0\xa6\x95 \xf0\x9f\x8c\x8d");
  CHECK(printable("a\x1b[2J\x07\n\x7f") == "a?[2J???");
  CHECK(printable("\xc2\x9b"
                  "31m") == "?31m");                                              // CSI in one character
  CHECK(printable("\xc3") == "?");                                                // cut off
  CHECK(printable("\xc0\xaf \xe0\x80\xaf \xed\xa0\x80 \xf5") == "?? ??? ??? ?");  // overlong, surrogate, too large
  CHECK(cut_utf8("caf\xc3\xa9", 5) == "caf\xc3\xa9");
  CHECK(cut_utf8("caf\xc3\xa9", 4) == "caf");  // not half of its last letter
  CHECK(cut_utf8("\x80\x80", 1).empty());      // what begins in the middle of one
  CHECK(is_printable_ascii("collab 0.1"));
  CHECK_FALSE(is_printable_ascii("collab\t0.1"));
  CHECK_FALSE(is_printable_ascii("caf\xc3\xa9"));
}

TEST_CASE("log: a field writes no control character, and each line of the file is UTF-8") {
  const test::TempFolder folder;
  Log::Options options;
  options.stderr_level = LogLevel::off;
  options.file = (folder.path() / "log").string();
  {
    Log log(options);
    log.info("test.event", {{"text", "\x1b[2J\x7f\xc2\x9b\xff caf\xc3\xa9"}});
  }
  const Bytes bytes = read_file(options.file, 10'000);
  const std::string line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  CHECK(line.find(R"("text":"\u001b[2J\u007f\u009b\ufffd caf)"
                  "\xc3\xa9\"") != std::string::npos);
}

TEST_CASE("channel: full is an answer, and what was pushed before the close is still there") {
  sim::Simulation world;
  const auto scenario = [&]() -> Task<> {
    Channel<int> channel(world.executor(), 2);
    CHECK(channel.try_push(1));
    CHECK(channel.try_push(2));
    CHECK_FALSE(channel.try_push(3));
    channel.close();
    const auto first = co_await channel.pop(world.clock(), TimePoint::max());
    const auto second = co_await channel.pop(world.clock(), TimePoint::max());
    const auto third = co_await channel.pop(world.clock(), TimePoint::max());
    CHECK(first.value() == 1);
    CHECK(second.value() == 2);
    CHECK(third.error() == Errc::gone);
  };
  world.run(scenario());
}

TEST_CASE("channel: a receiver that waits in vain is late") {
  sim::Simulation world;
  const auto scenario = [&]() -> Task<> {
    Channel<int> channel(world.executor(), 2);
    const auto nothing = co_await channel.pop(world.clock(), TimePoint(std::chrono::seconds(3)));
    CHECK(nothing.error() == Errc::late);
    CHECK(world.clock().now() == TimePoint(std::chrono::seconds(3)));
  };
  world.run(scenario());
}

}  // namespace collab
