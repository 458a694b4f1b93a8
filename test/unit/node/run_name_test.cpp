#include "node/run_name.hpp"

#include "manifests.hpp"

#include "support/doctest.hpp"

namespace collab::node {

TEST_CASE("join link: the text of a link is read back, ids, IPv6 and key included") {
  JoinLink link;
  link.run.run_id = "sahajbert-2.1";
  link.run.authority = test::identity(1).id();
  link.addresses.push_back(parse_peer_address("host.example:4600"));
  link.addresses.push_back(parse_peer_address(test::identity(2).id().text() + "@[2001:db8::7]:443"));
  const std::string text = to_string(link);
  CHECK(text.starts_with("collab://host.example:4600,"));
  CHECK(parse_join_link(text) == link);
  link.run.authority.reset();
  CHECK(parse_join_link(to_string(link)) == link);
}

TEST_CASE("join link: it may lead to WebSockets, whose addresses have slashes of their own") {
  JoinLink link;
  link.run.run_id = "demo";
  link.run.authority = test::identity(1).id();
  link.addresses.push_back(parse_peer_address("wss://host.example/collab/v1"));
  link.addresses.push_back(parse_peer_address(test::identity(2).id().text() + "@wss://[2001:db8::7]:8443/collab/v1"));
  link.addresses.push_back(parse_peer_address("host.example:4600"));
  CHECK(parse_join_link(to_string(link)) == link);
  link.addresses.resize(1);
  CHECK(to_string(link).starts_with("collab://wss://host.example:443/collab/v1/demo?key="));
  CHECK(parse_join_link(to_string(link)) == link);
  CHECK_THROWS_AS((void)parse_join_link("collab://wss://host:443/collab/v1"), Failure);  // names no run
  CHECK_THROWS_AS((void)parse_join_link("collab://wss://host:443/demo"), Failure);
  CHECK(looks_like_link(to_string(link)));
  CHECK_FALSE(looks_like_link("wss://host:443/collab/v1"));
  CHECK_FALSE(looks_like_link(to_string(link.addresses.front())));
  CHECK(looks_like_link("http://host:4600/run"));
}

TEST_CASE("join link: what is not one is a usage failure") {
  const std::string key = test::identity(1).id().text();
  const std::string mistyped = "a" + key.substr(1, 40) + "a" + key.substr(42);
  const std::vector<std::string> wrong = {
      "http://host:4600/run",
      "collab://host:4600",
      "collab://host:4600/",
      "collab:///run",
      "collab://host/run",
      "collab://host:4600,/run",
      "collab://host:70000/run",
      "collab://host:4600/Run",
      "collab://host:4600/run?token=x",
      "collab://host:4600/run?key=",
      "collab://host:4600/run?key=" + mistyped,
      "collab://host:4600/run?key=" + key + "&x=1",
      "collab://host:4600/run#" + key,
      "collab://" + std::string(5000, 'x') + ":1/run",
  };
  for (const std::string& text : wrong) {
    CAPTURE(text);
    CHECK_THROWS_AS((void)parse_join_link(text), Failure);
  }
  std::string many = "collab://h:1";
  for (int i = 0; i < 16; ++i) many += ",h:1";
  CHECK_THROWS_AS((void)parse_join_link(many + "/run"), Failure);
}

TEST_CASE("run name: NAME#KEY pins the key, a bare NAME does not, and a bad key is said to be bad") {
  const PeerId key = test::identity(1).id();
  const RunName pinned = parse_run_name("demo#" + key.text());
  CHECK(pinned.run_id == "demo");
  CHECK(pinned.authority == key);
  CHECK(parse_run_name(to_string(pinned)) == pinned);
  CHECK_FALSE(parse_run_name("demo").authority.has_value());
  for (const char* text : {"", "De mo", "demo#", "demo#abc", "#demo"}) {
    CAPTURE(text);
    CHECK_THROWS_AS((void)parse_run_name(text), Failure);
  }
  CHECK_THROWS_AS((void)parse_run_name(std::string(65, 'a')), Failure);
}

}  // namespace collab::node
