#include "node/lan_discovery.hpp"

#include "base/task_group.hpp"
#include "manifests.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <unistd.h>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using std::chrono::milliseconds;

LanAnswer answer_of(const std::string& run_id) {
  LanAnswer answer;
  answer.run_id = run_id;
  answer.peer = test::identity(2).id();
  answer.port = 4611;
  answer.authority = test::identity(1).id();
  return answer;
}

}  // namespace

TEST_CASE("lan: datagrams are read back, and anything else is refused") {
  const LanAnswer answer = answer_of("demo");
  const Bytes bytes = encode(answer);
  REQUIRE(decode_lan_answer(bytes).has_value());
  CHECK(*decode_lan_answer(bytes) == answer);
  CHECK(*decode_lan_question(encode_lan_question("demo")) == "demo");
  CHECK_FALSE(decode_lan_question(encode_lan_question("De mo")).has_value());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_lan_answer(std::span(bytes).first(size)).has_value());
  Bytes longer = bytes;
  longer.push_back(std::byte(0));
  CHECK_FALSE(decode_lan_answer(longer).has_value());
  Bytes other = bytes;
  other[1] = std::byte('x');
  CHECK_FALSE(decode_lan_answer(other).has_value());
}

TEST_CASE("lan: a member of the run answers, at most once per second; others are silent") {
  asio::io_context loop;
  RealClock clock(loop.get_executor());
  Log log;
  LanOptions options;
  options.port = static_cast<std::uint16_t>(20'000 + ::getpid() % 20'000);
  options.wait = milliseconds(200);
  options.loopback_only = true;
  std::vector<PeerAddress> found;
  std::vector<PeerAddress> at_once;
  std::vector<PeerAddress> other_run;
  std::vector<PeerAddress> other_key;
  const auto scenario = [&]() -> Task<> {
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      tasks.spawn("answer", answer_on_lan(loop.get_executor(), clock, log, answer_of("demo"), options));
      RunName run;
      run.run_id = "other";
      other_run = co_await ask_lan(loop.get_executor(), clock, run, options);
      run.run_id = "demo";
      found = co_await ask_lan(loop.get_executor(), clock, run, options);
      at_once = co_await ask_lan(loop.get_executor(), clock, run, options);
      co_await clock.sleep_until(clock.now() + milliseconds(700));
      run.authority = test::identity(9).id();
      other_key = co_await ask_lan(loop.get_executor(), clock, run, options);
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
  };
  asio::co_spawn(loop, scenario(), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
  REQUIRE(found.size() == 1);
  CHECK(to_string(found.front()) == test::identity(2).id().text() + "@127.0.0.1:4611");
  CHECK(at_once.empty());
  CHECK(other_run.empty());
  CHECK(other_key.empty());
}

}  // namespace collab::node
