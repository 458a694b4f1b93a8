#include "node/config.hpp"

#include "support/doctest.hpp"

namespace collab::node {

TEST_CASE("config: of a proxy nothing is shown that may be a login, also when its place was forgotten") {
  OptionRow row;
  row.login = true;
  CHECK(shown(row, "anna:secret@host:3128") == "USER:PASSWORD@host:3128");
  CHECK(shown(row, "http://host:3128/") == "http://host:3128/");
  CHECK(shown(row, "off") == "off");
  CHECK(shown(row, "").empty());
  for (const char* text :
       {"anna:secret", "http://anna:secret", "anna:secret@", "anna:secret@host", "socks5://anna:secret@h:1"}) {
    CAPTURE(text);
    CHECK(shown(row, text) == "not shown: no HTTP proxy");
  }
  row.login = false;
  CHECK(shown(row, "anna:secret") == "anna:secret");
}

}  // namespace collab::node
