#include "node/proxy_choice.hpp"

#include "base/error.hpp"
#include "node/config.hpp"

#include <map>
#include <string>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<net::Proxy> chosen(const std::string& wish, const Variables& variables) {
  return choose_proxy(wish, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("proxy choice: the option, else https_proxy, else HTTPS_PROXY; off is none") {
  const Variables both = {{"https_proxy", "http://small:1"}, {"HTTPS_PROXY", "http://large:1"}, {"NO_PROXY", "near"}};
  CHECK(chosen("wished:1", both)->at.host == "wished");
  CHECK(chosen("", both)->at.host == "small");
  CHECK(chosen("", {{"https_proxy", ""}, {"HTTPS_PROXY", "http://large:1"}})->at.host == "large");
  CHECK_FALSE(chosen("off", both));
  CHECK_FALSE(chosen("", {}));
  CHECK_FALSE(chosen("wished:1", both)->leads_to(net::Address{"near", 443}));
}

TEST_CASE("proxy choice: what cannot be read is told without a word of it") {
  for (const char* bad : {"anna:geheim@host", "socks5://anna:geheim@host:1080", "geheim"}) {
    CAPTURE(bad);
    try {
      (void)chosen(bad, {});
      FAIL("it was taken");
    } catch (const Failure& failure) {
      CHECK(failure.code() == ExitCode::usage);
      CHECK(std::string(failure.what()).find("geheim") == std::string::npos);
      CHECK(failure.remedy().find("--proxy off") != std::string::npos);
    }
  }
}

TEST_CASE("proxy choice: a login is shown by no list of options") {
  OptionRow row;
  row.name = "proxy";
  row.login = true;
  Config config({row});
  config.set("proxy", "anna:ge@heim@host:1", Origin::flag);
  CHECK(config.describe().find("USER:PASSWORD@host:1") != std::string::npos);
  CHECK(config.describe().find("heim") == std::string::npos);
  CHECK(config.text("proxy") == "anna:ge@heim@host:1");
}

}  // namespace collab::node
