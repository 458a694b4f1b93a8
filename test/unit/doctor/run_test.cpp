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
  if (nat::can_be_dialled(state)) look.reach->addresses.push_back(node::parse_peer_address("1.2.3.4:4600").address);
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
  for (const auto& row : codes) {
    const auto seen = row.first;
    CAPTURE(static_cast<int>(seen));
    RunLook look;
    look.run_id = "demo";
    look.attempts.push_back(attempt("h:1", seen, node::Source::run_book, "words of the other side"));
    const Finding place = finding_of(look, "bootstrap h:1");
    CHECK(place.code == row.second);
    const bool nobody = seen == Seen::refused || seen == Seen::silent;
    CHECK(place.measured.find(nobody ? " (run book)" : "words of the other side (run book)") != std::string::npos);
    CHECK_FALSE(place.remedy.empty());
    CHECK(finding_of(look, "run").code == row.second);
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

TEST_CASE("doctor: a proxy is told with what it answers, its fix and its exit code; of a login nothing") {
  const auto look_of = [](const boost::system::error_code& error) {
    RunLook look;
    look.run_id = "demo";
    look.proxy = net::parse_proxy("anna:geheim@proxy.example:3128").value();
    const Refusal why = net::proxy_refusal(error).value();
    look.attempts.push_back(attempt("h:1", node::finding_of(why, milliseconds(3)), node::Source::given, why.reason));
    look.attempts.back().proxy_trouble = net::proxy_trouble(why).value();
    return look;
  };
  struct Row {
    boost::system::error_code error;
    ExitCode code;
    std::string says;
  };
  for (const Row& row : {Row{net::proxy_status(407), ExitCode::usage, "(407)"},
                         Row{net::proxy_status(403), ExitCode::unreachable, "(403)"},
                         Row{net::proxy_status(502), ExitCode::unreachable, "(502)"},
                         Row{net::ProxyFault::silent, ExitCode::unreachable, "does not answer"},
                         Row{net::ProxyFault::not_http, ExitCode::unreachable, "no HTTP proxy"}}) {
    CAPTURE(row.says);
    RunLook look = look_of(row.error);
    const Finding way_out = finding_of(look, "way out");
    CHECK(way_out.result == Grade::fail);
    CHECK(way_out.code == row.code);
    CHECK(way_out.measured.starts_with("HTTP proxy proxy.example:3128: "));
    CHECK(way_out.measured.find(row.says) != std::string::npos);
    CHECK_FALSE(way_out.remedy.empty());
    const auto all = judge(look, JudgeOptions());
    CHECK(exit_code(all) == row.code);
    CHECK(to_json(all).find("geheim") == std::string::npos);
    look.attempts.push_back(attempt("wss://h:443/collab/v1", node::Finding::found));
    look.found.emplace();
    CHECK(finding_of(look, "way out").measured == "HTTP proxy proxy.example:3128: wss in use");
    CHECK(finding_of(look, "way out").result == Grade::ok);
  }
}

TEST_CASE("doctor: only where a WebSocket led out and bare TCP did not is that told") {
  const auto has_row = [](const RunLook& look) {
    const auto all = judge(look, JudgeOptions());
    return std::any_of(all.begin(), all.end(), [](const Finding& finding) { return finding.name == "way out"; });
  };
  RunLook look = found_look();
  CHECK_FALSE(has_row(look));
  look.attempts.front() = attempt("wss://h:443/collab/v1", node::Finding::found);
  CHECK_FALSE(has_row(look));  // nobody tried anything else
  look.attempts.push_back(attempt("h:4600", node::Finding::silent));
  CHECK(finding_of(look, "way out").result == Grade::warn);
  CHECK(finding_of(look, "way out").measured.starts_with("wss in use: bare TCP leads to nobody (h:4600 silent"));
  look.attempts.push_back(attempt("h2:4600", node::Finding::busy));
  CHECK_FALSE(has_row(look));
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
  CHECK(reach_of(nat::State::mapped, 1).result == Grade::ok);
  CHECK(reach_of(nat::State::outbound_only, 1).result == Grade::warn);
  CHECK(reach_of(nat::State::outbound_only, 1).measured.find("1 peer asked") != std::string::npos);
  CHECK(reach_of(nat::State::unknown, 0).result == Grade::warn);
  RunLook look = found_look();
  Reach reach;
  reach.port = 4600;
  reach.state = nat::State::outbound_only;
  reach.servers = 2;
  reach.relays.resize(2);
  look.reach = reach;
  const std::string relay = PeerId().short_text();
  CHECK(finding_of(look, "dial-back").measured ==
        "nobody can dial this machine; 2 peers asked. It takes part as a client, reached by relay " + relay + ", " +
            relay);
}

TEST_CASE("doctor: how the router translates is a row when two have told, and only a dependent mapping is a warning") {
  RunLook look = found_look();
  look.reach.emplace();
  look.reach->port = 4600;
  look.reach->state = nat::State::outbound_only;
  const auto is_row = [](const Finding& finding) { return finding.name == "translation"; };
  const auto rows = judge(look, JudgeOptions());
  CHECK(std::none_of(rows.begin(), rows.end(), is_row));
  const auto say = [&](nat::MappingKind kind, bool weak) {
    look.reach->mapping = nat::MappingFinding{kind, weak};
    return finding_of(look, "translation");
  };
  CHECK(say(nat::MappingKind::independent, false).result == Grade::ok);
  CHECK(say(nat::MappingKind::independent, true).measured.find("not sure") != std::string::npos);
  CHECK(say(nat::MappingKind::none, false).measured.starts_with("none: "));
  const Finding dependent = say(nat::MappingKind::dependent, false);
  CHECK(dependent.result == Grade::warn);
  CHECK(dependent.remedy == "forward TCP port 4600 at the router to this machine; nothing else helps");
}

namespace {

RouterLook mapped_look() {
  RouterLook look;
  look.port = 4600;
  look.observed = "11.99.0.11";
  look.status.phase = nat::MappingStatus::Phase::mapped;
  look.status.router = "192.168.1.1";
  look.status.mapping = nat::Mapping{nat::Protocol::natpmp, "192.168.1.1", 4600, 4601, "11.99.0.11", 3600};
  return look;
}

Reach in_state(nat::State state) {
  Reach reach;
  reach.port = 4600;
  reach.state = state;
  return reach;
}

}  // namespace

TEST_CASE("doctor: a mapping is told with its lease, and what it is worth by those who tried") {
  const RouterLook look = mapped_look();
  const Finding proved = judge_router(look, in_state(nat::State::mapped));
  CHECK(proved.result == Grade::ok);
  CHECK(proved.measured == "mapped by NAT-PMP: 11.99.0.11:4601 leads to port 4600 here, for 3600 s at a time");
  CHECK(judge_router(look, std::nullopt).measured == proved.measured + "; nobody has tried it out");
  const Finding filtered = judge_router(look, in_state(nat::State::outbound_only));
  CHECK(filtered.result == Grade::warn);
  CHECK(filtered.measured.find("the provider or a firewall filters") != std::string::npos);
  RouterLook twice = look;
  twice.status.mapping->outside_host = "100.64.0.7";
  for (const auto& reach : {std::optional<Reach>(), std::optional(in_state(nat::State::outbound_only))}) {
    CHECK(judge_router(twice, reach).result == Grade::warn);
    CHECK(judge_router(twice, reach).measured.find("a second NAT is in front of your router") != std::string::npos);
    CHECK(judge_router(twice, reach).remedy.find("bridge mode") != std::string::npos);
  }
  CHECK(judge_router(twice, in_state(nat::State::mapped)).result == Grade::ok);  // what gets through gets through
  RouterLook for_good = look;
  for_good.status.mapping->lease_s = 0;
  CHECK(judge_router(for_good, std::nullopt).measured.find("until this peer leaves") != std::string::npos);
}

TEST_CASE("doctor: without a mapping protocol it says what to switch on or to forward, unless others get through") {
  RouterLook look;
  look.port = 4600;
  look.status.phase = nat::MappingStatus::Phase::refused;
  look.status.router = "192.168.1.1";
  using Why = nat::GatewayRefusal::Why;
  look.status.trials = {{nat::Protocol::natpmp, {Why::silent, "is not answered"}},
                        {nat::Protocol::upnp, {Why::absent, "is spoken by nobody in this network"}}};
  const Finding none = judge_router(look, in_state(nat::State::outbound_only));
  CHECK(none.result == Grade::warn);
  CHECK(
      none.measured ==
      "the router at 192.168.1.1 maps no port: NAT-PMP is not answered, and UPnP is spoken by nobody in this network");
  CHECK(none.remedy == "switch on UPnP or NAT-PMP in the router, or forward TCP port 4600 to this machine there");
  CHECK(judge_router(look, in_state(nat::State::open)).result == Grade::ok);
  RunLook whole = found_look();
  whole.router = look;
  whole.reach = in_state(nat::State::outbound_only);
  whole.reach->servers = 2;
  CHECK(finding_of(whole, "dial-back").remedy == none.remedy + "; or say --client");
  CHECK(finding_of(whole, "port mapping").result == Grade::warn);
  look.status.phase = nat::MappingStatus::Phase::no_router;
  CHECK(judge_router(look, in_state(nat::State::open)).result == Grade::ok);
  look.status.phase = nat::MappingStatus::Phase::off;
  CHECK(judge_router(look, std::nullopt).measured == "none, by wish");
}

}  // namespace collab::doctor
