#include "net/address.hpp"

#include "crypto/identity.hpp"

#include <string>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {

TEST_CASE("address: each leg has one text, which is read back as it was") {
  for (const char* text : {"host:4600", "10.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:4600", "wss://host:443/collab/v1",
                           "wss://[2001:db8::1]:8443/collab/v1"}) {
    CAPTURE(text);
    const auto address = parse_address(text);
    REQUIRE(address);
    CHECK(to_string(*address) == text);
    CHECK((address->leg == Leg::wss) == std::string(text).starts_with("wss"));
  }
}

TEST_CASE("address: a WebSocket's port may be missing, nothing else of it") {
  for (const auto& pair :
       std::vector<std::pair<std::string, std::string>>{{"wss://host/collab/v1", "wss://host:443/collab/v1"},
                                                        {"wss://10.0.0.1/collab/v1", "wss://10.0.0.1:443/collab/v1"},
                                                        {"wss://[::1]/collab/v1", "wss://[::1]:443/collab/v1"}}) {
    CAPTURE(pair.first);
    const auto address = parse_address(pair.first);
    REQUIRE(address);
    CHECK(to_string(*address) == pair.second);
    CHECK(host_and_port(*address) + "/collab/v1" == pair.second.substr(6));
  }
  for (const char* text :
       {"wss://host:443", "wss://host:443/", "wss://host:443/collab/v2", "wss://host:443/collab/v1/",
        "wss:///collab/v1", "wss://:443/collab/v1", "wss://host:/collab/v1", "wss://host:0/collab/v1",
        "wss://::1/collab/v1", "wss://user@host:443/collab/v1", "wss://a/b:443/collab/v1", "ws://host:443/collab/v1",
        "WSS://host/collab/v1", "https://host:443/collab/v1", "wss://wss://host:443/collab/v1",
        "wss://host:443?/collab/v1", "/collab/v1", "wss://"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_address(text));
  }
  CHECK(parse_address("wss://[::]:0/collab/v1", true));
}

TEST_CASE("address: of one host and port the bare one is another than the WebSocket's") {
  const Address bare{"10.0.0.1", 443};
  const Address web{"10.0.0.1", 443, Leg::wss};
  CHECK(bare != web);
  CHECK(bare < web);
  CHECK(parse_numeric_address(to_string(web)).value() == web);
  CHECK_FALSE(parse_numeric_address("wss://host:443/collab/v1"));
}

TEST_CASE(
    "address: of a relay the text has place and id, the host is numeric where others' must be, and no id is made up") {
  const PeerId id = Identity::generate(Identity::Seed{9}).id();
  for (const char* place : {"10.0.0.1:4600", "[2001:db8::1]:1", "host.example:65535"}) {
    CAPTURE(place);
    const std::string text = std::string("relay://") + place + "/" + id.text();
    const auto address = parse_address(text);
    REQUIRE(address);
    CHECK(address->leg == Leg::relay);
    CHECK(address->relay == id);
    CHECK(to_string(*address) == text);
    CHECK(host_and_port(*address) == place);
    CHECK(parse_numeric_address(text).has_value() == (place[0] != 'h'));
  }
  const std::string text = id.text();
  for (const std::string& wrong : std::vector<std::string>{
           "relay://10.0.0.1:4600", "relay://10.0.0.1:4600/", "relay://10.0.0.1/" + text, "relay:///" + text,
           "relay://:1/" + text, "relay://10.0.0.1:0/" + text, "relay://10.0.0.1:4600/" + text + "/",
           "relay://10.0.0.1:4600/" + text.substr(1), "relay://10.0.0.1:4600//" + text, "RELAY://10.0.0.1:4600/" + text,
           "relay://wss://10.0.0.1:4600/" + text, "relay://10.0.0.1:4600/A" + text.substr(1),
           "10.0.0.1:4600/" + text}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_address(wrong));
  }
  CHECK_FALSE(parse_address("relay://10.0.0.1:4600/collab/v1"));
}

}  // namespace collab::net
