#include "node/interface_choice.hpp"

#include "base/error.hpp"

#include <string>

#include "support/doctest.hpp"

namespace collab::node {

TEST_CASE("interface: any, one that is there, and one that is not, with those that are") {
  CHECK(choose_interface("").empty());
  CHECK(choose_interface("lo") == "lo");
  try {
    choose_interface("nowhere0");
    FAIL("no refusal");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::usage);
    CHECK(std::string(failure.what()).find("\"nowhere0\"") != std::string::npos);
    CHECK(std::string(failure.what()).find("lo") != std::string::npos);
  }
}

}  // namespace collab::node
