#include "doctor/run.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

using std::chrono::milliseconds;

node::Attempt attempt(const std::string& at, node::Finding finding, node::Source source = node::Source::given,
                      const std::string& text = {}) {
  node::Attempt attempt;
  attempt.place.at = node::parse_peer_address(at);
  attempt.place.source = source;
  attempt.finding = finding;
  attempt.text = text;
  attempt.waited = milliseconds(12);
  return attempt;
}

/// A look at "demo" that found it at h:1.
RunLook found_look() {
  RunLook look;
  look.run_id = "demo";
  look.attempts.push_back(attempt("h:1", node::Finding::found));
  look.found.emplace();
  look.found->manifest.run_id = "demo";
  look.found->address = look.attempts.front().place.at.address;
  return look;
}

Finding finding_of(const RunLook& look, const std::string& name) {
  const auto findings = judge(look, JudgeOptions());
  const auto same = [&](const Finding& finding) { return finding.name == name; };
  const auto found = std::find_if(findings.begin(), findings.end(), same);
  CAPTURE(name);
  REQUIRE(found != findings.end());
  return *found;
}

Finding reach_of(nat::State state, std::size_t servers) {
  RunLook look = found_look();
  look.reach.emplace();
  look.reach->port = 4600;
  look.reach->state = state;
  look.reach->servers = servers;
  if (state == nat::State::open) look.reach->addresses.push_back(node::parse_peer_address("1.2.3.4:4600").address);
  return finding_of(look, "dial-back");
}

}  // namespace

TEST_CASE("doctor: each answer of a place has its exit code when the run is not found") {
  using Seen = node::Finding;
  const std::vector<std::pair<Seen, ExitCode>> codes = {
      {Seen::refused, ExitCode::unreachable},    {Seen::silent, ExitCode::unreachable},
      {Seen::busy, ExitCode::unreachable},       {Seen::other_run, ExitCode::unreachable},
      {Seen::other_peer, ExitCode::unreachable}, {Seen::not_admitted, ExitCode::not_admitted},
      {Seen::authority, ExitCode::not_admitted}, {Seen::version, ExitCode::incompatible},
      {Seen::damaged, ExitCode::incompatible},   {Seen::clock, ExitCode::machine}};
  for (const auto& [seen, code] : codes) {
    CAPTURE(static_cast<int>(seen));
    RunLook look;
    look.run_id = "demo";
    look.attempts.push_back(attempt("h:1", seen, node::Source::run_book, "words of the other side"));
    const Finding place = finding_of(look, "bootstrap h:1");
    CHECK(place.code == code);
    const bool nobody = seen == Seen::refused || seen == Seen::silent;
    CHECK(place.measured.find(nobody ? " (run book)" : "words of the other side (run book)") != std::string::npos);
    CHECK_FALSE(place.remedy.empty());
    CHECK(finding_of(look, "run").code == code);
    look.attempts.push_back(attempt("h2:1", Seen::found));
    look.found.emplace();
    CHECK(finding_of(look, "bootstrap h:1").result == Grade::warn);  // another place led to the run
  }
}

TEST_CASE("doctor: who was not named is not judged: contacts are counted, this machine is only tried") {
  RunLook look = found_look();
  look.attempts.push_back(attempt("127.0.0.1:4600", node::Finding::refused, node::Source::loopback));
  look.attempts.push_back(attempt("1.1.1.1:1", node::Finding::found, node::Source::contact));
  look.attempts.push_back(attempt("1.1.1.2:1", node::Finding::silent, node::Source::contact));
  CHECK(finding_of(look, "contacts").measured == "1 of 2 members of earlier times answered");
  CHECK(worst(judge(look, JudgeOptions())) == Grade::ok);
}

TEST_CASE("doctor: who was not named does not decide about version and clock either") {
  for (const auto& [seen, name] : {std::pair(node::Finding::version, "protocol"), {node::Finding::clock, "clock"}}) {
    for (const node::Source source : {node::Source::loopback, node::Source::lan, node::Source::contact}) {
      RunLook look;
      look.run_id = "demo";
      look.attempts.push_back(attempt("h:1", node::Finding::refused));
      look.attempts.push_back(attempt("1.1.1.1:1", seen, source, "words of the other side"));
      CHECK(exit_code(judge(look, JudgeOptions())) == ExitCode::unreachable);
      look.attempts.back().place.source = node::Source::given;
      CHECK(finding_of(look, name).result == Grade::fail);
    }
  }
}

TEST_CASE("doctor: what a stranger says is cut and cannot move the cursor") {
  RunLook look;
  look.run_id = "demo";
  look.attempts.push_back(
      attempt("h:1", node::Finding::not_admitted, node::Source::given, "go\x1b[2Jaway" + std::string(5000, 'x')));
  const Finding place = finding_of(look, "bootstrap h:1");
  CHECK(place.measured.find('\x1b') == std::string::npos);
  CHECK(place.measured.size() < 400);
}

TEST_CASE("doctor: a clock is judged by how far it is off, either way") {
  RunLook look = found_look();
  const auto grade = [&](std::int64_t skew_ms) {
    look.skew_ms = skew_ms;
    return finding_of(look, "clock").result;
  };
  CHECK(grade(0) == Grade::ok);
  CHECK(grade(5'000) == Grade::ok);
  CHECK(grade(-5'001) == Grade::warn);
  CHECK(grade(60'000) == Grade::warn);
  CHECK(grade(-60'001) == Grade::fail);
  CHECK(finding_of(look, "clock").code == ExitCode::machine);
  CHECK(finding_of(look, "clock").measured == "60.0 s ahead of the peers that answered");
}

TEST_CASE("doctor: whether others can dial us is known, feared or unknown") {
  CHECK(reach_of(nat::State::open, 3).result == Grade::ok);
  CHECK(reach_of(nat::State::open, 3).measured == "others dial 1.2.3.4:4600; 3 peers asked");
  CHECK(reach_of(nat::State::outbound_only, 1).result == Grade::warn);
  CHECK(reach_of(nat::State::outbound_only, 1).measured.find("1 peer asked") != std::string::npos);
  CHECK(reach_of(nat::State::unknown, 0).result == Grade::warn);
}

}  // namespace collab::doctor
