#include "support/real_node.hpp"

#include <string>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using test::RealNode;

Frame text_frame(const std::string& text) {
  Bytes bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return std::make_shared<const Buffer>(bytes);
}

Frame big_frame(std::size_t bytes, unsigned char value) {
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte(value)));
}

void add_echo(RealNode& node) {
  Method method;
  method.name = "test.echo";
  const auto echo = [](PeerId, Frame request, TimePoint) -> Task<Answer> { co_return request; };
  node.endpoint().handle(method, echo);
}

void add_talk(RealNode& node) {
  Method method;
  method.name = "test.talk";
  method.request_bytes_max = kMessageBytesMax;
  node.endpoint().allow_conversation(method);
}

}  // namespace

TEST_CASE("endpoint on TCP: two nodes connect by address, call each other and leave") {
  RealNode a(1);
  RealNode b(2);
  add_echo(a);
  add_echo(b);
  a.start();
  b.start();
  const auto found = a.in_loop(a.endpoint().connect(b.address(), a.in(std::chrono::seconds(5))));
  REQUIRE(found);
  CHECK(*found == b.id());
  const auto there =
      a.in_loop(a.endpoint().call(b.id(), "test.echo", text_frame("hello"), a.in(std::chrono::seconds(5))));
  REQUIRE(there);
  CHECK(**there == *text_frame("hello"));
  const auto back =
      b.in_loop(b.endpoint().call(a.id(), "test.echo", text_frame("you too"), b.in(std::chrono::seconds(5))));
  REQUIRE(back);
  CHECK(**back == *text_frame("you too"));
  a.in_loop(a.endpoint().leave());
  CHECK(a.in_loop([](RealNode& node) -> Task<std::size_t> { co_return node.endpoint().connected().size(); }(a)) == 0);
}

TEST_CASE("TCP: a stream whose machine has its address still is not stranded") {
  RealNode a(1);
  RealNode b(2);
  a.start();
  b.start();
  auto stream = a.in_loop(a.network().dial(b.address(), a.in(std::chrono::seconds(5))));
  REQUIRE(stream);
  CHECK_FALSE((*stream)->is_stranded());  // that it is once it has not: in network namespaces, `behind routers`
}

TEST_CASE("TCP: a host is looked up by its name; a numeric one is its own answer") {
  RealNode a(1);
  a.start();
  const auto numeric = a.in_loop(a.network().look_up("10.1.2.3", a.in(std::chrono::seconds(5))));
  REQUIRE(numeric);
  CHECK(*numeric == std::vector<std::string>(1, "10.1.2.3"));
  const auto named = a.in_loop(a.network().look_up("localhost", a.in(std::chrono::seconds(5))));
  REQUIRE(named);
  CHECK((named->front() == "127.0.0.1" || named->front() == "::1"));
}

TEST_CASE("endpoint on TCP: a conversation carries messages of every size in order, both ways at once") {
  RealNode a(1);
  RealNode b(2);
  add_talk(a);
  add_talk(b);
  add_echo(b);
  a.start();
  b.start();
  REQUIRE(a.in_loop(a.endpoint().connect(b.address(), a.in(std::chrono::seconds(5)))));
  // who was dialled knows the way back when it has heard something on it, and does not know our address
  REQUIRE(a.in_loop(a.endpoint().call(b.id(), "test.echo", text_frame("there?"), a.in(std::chrono::seconds(5)))));
  constexpr std::size_t kCount = 60;
  const auto size_of = [](std::size_t i) { return 1 + (i * i * i * 977) % (std::size_t(1) << 20U); };
  const auto talk = [&](RealNode& self, RealNode& other) -> Task<std::size_t> {
    const auto with = self.endpoint().converse("test.talk", Digest{}, std::vector<PeerId>(1, other.id()));
    const auto send_all = [&]() -> Task<> {
      for (std::size_t i = 0; i < kCount; ++i) {
        auto frame = big_frame(size_of(i), static_cast<unsigned char>(i));
        const auto sent = co_await with->send(other.id(), TrafficClass::bulk, frame, self.in(std::chrono::seconds(5)));
        if (!sent) co_return;
      }
    };
    TaskGroup sending(co_await asio::this_coro::executor, rethrow);
    sending.spawn("send", send_all());
    std::size_t right = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto envelope = co_await with->receive(self.in(std::chrono::seconds(5)));
      if (!envelope) break;
      const bool same =
          envelope->from == other.id() && *envelope->frame == *big_frame(size_of(i), static_cast<unsigned char>(i));
      right += same ? 1 : 0;
    }
    co_await sending.join();
    // whoever ends first closes the topic: let the other have its last messages
    co_await self.clock().sleep_until(self.in(std::chrono::milliseconds(100)));
    co_return right;
  };
  auto theirs = std::async(std::launch::async, [&] { return b.in_loop(talk(b, a)); });
  CHECK(a.in_loop(talk(a, b)) == kCount);
  CHECK(theirs.get() == kCount);
}

}  // namespace collab::net
