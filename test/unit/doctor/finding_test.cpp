#include "doctor/finding.hpp"

#include <nlohmann/json.hpp>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

Finding failed(ExitCode code) {
  return fail("x", "measured", "remedy", code);
}

}  // namespace

TEST_CASE("doctor: the worst finding decides the exit code, in the order in which a start would meet them") {
  CHECK(exit_code({}) == ExitCode::done);
  std::vector<Finding> findings = {ok("a", "fine"), warn("b", "slow", "hurry")};
  CHECK(worst(findings) == Grade::warn);
  CHECK(exit_code(findings) == ExitCode::done);
  for (const ExitCode code : {ExitCode::data, ExitCode::unreachable, ExitCode::incompatible, ExitCode::not_admitted,
                              ExitCode::machine, ExitCode::usage}) {
    findings.push_back(failed(code));
    CHECK(exit_code(findings) == code);  // each comes before all that are there already
    CHECK(worst(findings) == Grade::fail);
  }
}

TEST_CASE("doctor: a line says grade, name, value, and what to do when something is to be done") {
  CHECK(line(ok("disk", "12 GB free")) == "ok    disk                        12 GB free");
  CHECK(line(warn("clock", "6.1 s behind", "set the clock")) ==
        "warn  clock                       6.1 s behind. Try: set the clock");
  CHECK(line(warn("run", "is it running?", "look")) == "warn  run                         is it running? Try: look");
  const Failure failure(ExitCode::machine, "the key is torn", "restore it");
  CHECK(line(fail("key", failure)) == "fail  key                         the key is torn. Try: restore it");
}

TEST_CASE("doctor: the JSON is one object on one line, whatever bytes a stranger sent") {
  const std::vector<Finding> findings = {ok("disk", "12 GB free"),
                                         fail("run", "it says: \xff\n\"", "ask", ExitCode::unreachable)};
  const std::string text = to_json(findings);
  CHECK(text.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(text);
  CHECK(json.at("version") == 1);
  CHECK(json.at("worst") == "fail");
  CHECK(json.at("exit_code") == 3);
  REQUIRE(json.at("checks").size() == 2);
  CHECK(json.at("checks")[0] ==
        nlohmann::json({{"name", "disk"}, {"result", "ok"}, {"measured", "12 GB free"}, {"remedy", ""}, {"code", 0}}));
  CHECK(json.at("checks")[1].at("code") == 3);
}

}  // namespace collab::doctor
