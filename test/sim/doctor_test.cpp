#include "base/file.hpp"
#include "doctor/run.hpp"
#include "support/sim_node.hpp"
#include "support/temp_folder.hpp"
#include "swarm_node.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

using namespace std::chrono_literals;
using test::identity;
using test::SimRun;
using test::SwarmNode;

/// What was found, and how long it took.
struct Report {
  RunLook look;
  std::vector<Finding> findings;
  Duration took{};

  const Finding* find(const std::string& name) const {
    const auto same = [&](const Finding& finding) { return finding.name == name; };
    const auto found = std::find_if(findings.begin(), findings.end(), same);
    return found == findings.end() ? nullptr : &*found;
  }
  const Finding& at(const std::string& name) const {
    const Finding* finding = find(name);
    CAPTURE(name);
    REQUIRE(finding != nullptr);
    return *finding;
  }
};

/// A machine that is looked from: host "patient", identity 9, whose calendar may be wrong.
struct Patient {
  Patient(SimRun& run, node::NodeOptions what)
      : host(run.network.add_host("patient")),
        clock(host.clock()),
        executor(run.world.executor()),
        wishes(std::move(what)) {
    reach_through(host);
    options.listen.emplace();
    options.listen->host = "::";
    options.listen->port = 4600;
    options.look_up = [this](std::string name, TimePoint) -> Task<Result<std::vector<std::string>>> {
      if (name == unknown) co_return Errc::gone;
      co_return std::vector<std::string>(1, "10.9.0.1");
    };
  }

  void reach_through(net::Network& network) {
    const node::NodeNeeds needs{executor, executor, clock, network, Random(9), log, metrics};
    peer.emplace(needs, identity(9), wishes);
  }

  Task<Report> examine() {
    const TimePoint start = clock.now();
    Report report;
    report.look = co_await look_at_run(*peer, options);
    report.took = clock.now() - start;
    report.findings = judge(report.look, judging);
    CHECK(report.took < 25s);
    for (const Finding& finding : report.findings) {
      CHECK(finding.remedy.empty() == (finding.result == Grade::ok));
      CHECK((finding.code == ExitCode::done) == (finding.result != Grade::fail));
    }
    co_return report;
  }

  sim::Host& host;
  test::CalendarClock clock;
  asio::any_io_executor executor;
  node::NodeOptions wishes;
  Log log;
  Metrics metrics;
  std::optional<node::Node> peer;
  LookOptions options;
  JudgeOptions judging;
  std::string unknown;
};

/// One look at a run whose coordinator has been there for a second.
Report examine(SimRun& run, node::NodeOptions what, std::function<void(Patient&)> change = {},
               std::function<void(SwarmNode&)> spoil = {}, std::function<void(node::Manifest&)> manifest = {},
               std::filesystem::path allow_list = {}) {
  Report report;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator(manifest, allow_list);
    Patient patient(run, std::move(what));
    if (change) change(patient);
    co_await run.sleep(1s);
    if (spoil) spoil(coordinator);
    report = co_await patient.examine();
  });
  return report;
}

}  // namespace

TEST_CASE("sim doctor: where everything is well, every line says so, and others dial us") {
  SimRun run;
  const Report report = examine(run, run.options());
  CHECK(worst(report.findings) == Grade::ok);
  CHECK(exit_code(report.findings) == ExitCode::done);
  CHECK(report.at("names").measured == "coordinator is 10.9.0.1");
  CHECK(report.at("bootstrap coordinator:4600").measured.starts_with("coordinator:4600 answered (given) after "));
  CHECK(report.at("run").measured.find(identity(1).id().text()) != std::string::npos);
  CHECK(report.at("protocol").measured == "1; the run asks for 1 or later");
  CHECK(report.at("clock").result == Grade::ok);
  CHECK(report.at("dial-back").measured.starts_with("others dial 10.9."));
  CHECK(report.took < 2s);
}

TEST_CASE("sim doctor: who listens nowhere is not dialled, and nothing is said about it") {
  SimRun run;
  const Report report = examine(run, run.options(), [](Patient& patient) { patient.options.listen.reset(); });
  CHECK(worst(report.findings) == Grade::ok);
  CHECK(report.find("dial-back") == nullptr);
}

TEST_CASE("sim doctor: a place that refuses, one that is silent and a name that is unknown are told apart") {
  SimRun run;
  run.network.add_host("empty");
  node::NodeOptions what = run.options("empty:4600");
  what.bootstrap.push_back(node::parse_peer_address("coordinator:4600"));
  what.bootstrap.push_back(node::parse_peer_address("nowhere:4600"));
  const Report report = examine(
      run, what, [](Patient& patient) { patient.unknown = "nowhere"; },
      [&](SwarmNode& coordinator) { run.network.freeze(coordinator.host); });
  CHECK(report.at("bootstrap empty:4600").measured == "empty:4600 refused (given)");
  CHECK(report.at("bootstrap coordinator:4600").measured.starts_with("coordinator:4600 silent for 5 s"));
  CHECK(report.at("names").measured.starts_with("no address for nowhere; coordinator is "));
  CHECK(report.at("names").code == ExitCode::unreachable);
  CHECK(report.at("bootstrap nowhere:4600").measured == "not dialled: its name has no address (given)");
  CHECK(report.at("run").measured.find("none of 3 places above led to it") != std::string::npos);
  CHECK(exit_code(report.findings) == ExitCode::unreachable);
  CHECK(report.find("clock") == nullptr);
  CHECK(report.took >= 5s);
  CHECK(report.took < 8s);
  run.network.thaw(run.nodes.front()->host);
}

TEST_CASE("sim doctor: one place that leads to the run is enough; the others are warned of") {
  SimRun run;
  run.network.add_host("empty");
  node::NodeOptions what = run.options("empty:4600");
  what.bootstrap.push_back(node::parse_peer_address("coordinator:4600"));
  const Report report = examine(run, what);
  CHECK(report.at("bootstrap empty:4600").result == Grade::warn);
  CHECK(report.at("bootstrap coordinator:4600").result == Grade::ok);
  CHECK(report.at("run").result == Grade::ok);
  CHECK(worst(report.findings) == Grade::warn);
  CHECK(exit_code(report.findings) == ExitCode::done);
}

TEST_CASE("sim doctor: a name that nobody knows takes its time, and no time of the place that leads to the run") {
  SimRun run;
  node::NodeOptions what = run.options("nowhere:4600");
  what.bootstrap.push_back(node::parse_peer_address("coordinator:4600"));
  const Report report = examine(run, what, [](Patient& patient) {
    patient.options.look_up = [&patient](std::string name,
                                         TimePoint deadline) -> Task<Result<std::vector<std::string>>> {
      if (name == "coordinator") co_return std::vector<std::string>(1, "10.9.0.1");
      co_await patient.clock.sleep_until(deadline);
      co_return Errc::late;
    };
  });
  CHECK(report.at("names").result == Grade::warn);
  CHECK(report.at("names").measured == "no address for nowhere; coordinator is 10.9.0.1");
  CHECK(report.at("names").remedy.find("name server") != std::string::npos);
  CHECK(report.at("bootstrap nowhere:4600").result == Grade::warn);
  CHECK(report.at("bootstrap coordinator:4600").result == Grade::ok);
  CHECK(report.took >= 5s);
  CHECK(report.took < 8s);
}

/// Listens, but never takes a connection: as behind a firewall that drops them.
class DeafNetwork final : public net::Network {
 public:
  DeafNetwork(net::Network& inner, Clock& clock) : inner_(inner), clock_(clock) {}
  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address to, TimePoint deadline) override {
    return inner_.dial(std::move(to), deadline);
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& at) override {
    auto listener = inner_.listen(at);
    if (!listener) return listener.error();
    return std::make_unique<Deaf>(std::move(*listener), clock_);
  }

 private:
  struct Deaf final : net::Listener {
    Deaf(std::unique_ptr<net::Listener> inner, Clock& time) : listener(std::move(inner)), clock(time) {}
    Task<Result<std::unique_ptr<net::ByteStream>>> accept() override {
      co_await clock.sleep_until(TimePoint::max());
      co_return Errc::gone;
    }
    net::Address local() const override { return listener->local(); }
    void close() override { listener->close(); }
    std::unique_ptr<net::Listener> listener;
    Clock& clock;
  };
  net::Network& inner_;
  Clock& clock_;
};

TEST_CASE("sim doctor: a machine that nobody can dial is told so, with what helps") {
  SimRun run;
  std::optional<DeafNetwork> deaf;
  const Report report = examine(run, run.options(), [&](Patient& patient) {
    deaf.emplace(patient.host, patient.clock);
    patient.reach_through(*deaf);
  });
  const Finding& reach = report.at("dial-back");
  CHECK(reach.result == Grade::warn);
  CHECK(reach.measured == "nobody can dial this machine; 1 peer asked. It takes part as a client");
  CHECK(reach.remedy.find("forward it at the router") != std::string::npos);
  CHECK(exit_code(report.findings) == ExitCode::done);
}

TEST_CASE("sim doctor: a port that peers do not knock at stays unknown, and at once") {
  SimRun run;
  const Report report = examine(run, run.options(), [](Patient& patient) { patient.options.listen->port = 80; });
  const Finding& reach = report.at("dial-back");
  CHECK(reach.result == Grade::warn);
  CHECK(reach.measured == "nobody knows: peers do not knock at port 80 to find out");
  CHECK(reach.remedy.find("443") != std::string::npos);
  CHECK(report.took < 2s);
}

TEST_CASE("sim doctor: another run is named; without a run of our own it is as good as any") {
  for (const bool named : {true, false}) {
    SimRun run;
    node::NodeOptions what = run.options();
    what.run.run_id = "another";
    const Report report = examine(run, what, [named](Patient& patient) { patient.judging.named = named; });
    const Finding& place = report.at("bootstrap coordinator:4600");
    CHECK(place.measured.find("takes part in run \"demo\", yours in \"another\"") != std::string::npos);
    CHECK(place.result == (named ? Grade::fail : Grade::ok));
    CHECK(exit_code(report.findings) == (named ? ExitCode::unreachable : ExitCode::done));
  }
}

TEST_CASE("sim doctor: a run that does not admit this peer, asked with its key, as a stranger, and as somebody else") {
  using Key = JudgeOptions::Key;
  for (const Key key : {Key::own, Key::none_yet, Key::unusable}) {
    const test::TempFolder folder;
    write_file(folder.path() / "allowed", std::string_view("# nobody\n"));
    SimRun run;
    const Report report = examine(
        run, run.options(), [key](Patient& patient) { patient.judging.key = key; }, {},
        [](node::Manifest& manifest) { manifest.admission = Admission::allow_list; }, folder.path() / "allowed");
    const Finding& place = report.at("bootstrap coordinator:4600");
    CHECK(place.measured.find("not on the allow-list") != std::string::npos);
    CHECK(place.result == (key == Key::unusable ? Grade::warn : Grade::fail));
    CHECK(exit_code(report.findings) == (key == Key::unusable ? ExitCode::done : ExitCode::not_admitted));
    CHECK((place.measured.find("as a stranger") != std::string::npos) == (key == Key::none_yet));
  }
}

TEST_CASE("sim doctor: a run that asks for a later protocol, and one of another authority") {
  SimRun run;
  Report later;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    node::Manifest manifest = coordinator.node->manifest();
    manifest.sequence = 2;
    manifest.version_min = 9;
    const auto offered = co_await coordinator.node->manifest_keeper().offer(sign_manifest(identity(1), manifest));
    REQUIRE(offered);
    Patient patient(run, run.options());
    later = co_await patient.examine();
  });
  CHECK(later.at("protocol").measured.find("asks for protocol 9 or later, this program speaks 1") != std::string::npos);
  CHECK(exit_code(later.findings) == ExitCode::incompatible);

  SimRun second;
  node::NodeOptions what = second.options();
  what.run.authority = identity(7).id();
  const Report other = examine(second, what);
  CHECK(other.at("bootstrap coordinator:4600").code == ExitCode::not_admitted);
  CHECK(exit_code(other.findings) == ExitCode::not_admitted);
}

TEST_CASE("sim doctor: somebody else than who had to be there") {
  SimRun run;
  const Report report = examine(run, run.options(identity(5).id().text() + "@coordinator:4600"));
  const Finding& place = report.at("bootstrap coordinator:4600");
  CHECK(place.measured.find("is somebody else: I am " + identity(1).id().text()) != std::string::npos);
  CHECK(place.code == ExitCode::unreachable);
}

TEST_CASE("sim doctor: a clock that is off by seconds is warned of, by a minute it fails") {
  struct Case {
    std::int64_t ahead_ms;
    Grade grade;
    std::string words;
  };
  for (const Case& one :
       {Case{4'000, Grade::ok, "4.0 s ahead of"}, Case{6'000, Grade::warn, "6.0 s ahead of"},
        Case{-6'000, Grade::warn, "6.0 s behind"}, Case{61'000, Grade::fail, "your clock is 61.0 s ahead of"},
        Case{-61'000, Grade::fail, "your clock is 61.0 s behind"}}) {
    CAPTURE(one.words);
    SimRun run;
    const Report report = examine(run, run.options(), [&](Patient& patient) { patient.clock.ahead_ms = one.ahead_ms; });
    CHECK(report.at("clock").result == one.grade);
    CHECK(report.at("clock").measured.find(one.words) != std::string::npos);
    CHECK(exit_code(report.findings) == (one.grade == Grade::fail ? ExitCode::machine : ExitCode::done));
  }
}

TEST_CASE("sim doctor: nothing is said to nobody, and no address at all is a failure with a remedy") {
  SimRun run;
  const Report report = examine(run, run.options(""));
  CHECK(report.at("run").measured.find("no address is known") != std::string::npos);
  CHECK(report.at("run").remedy.find("--bootstrap") != std::string::npos);
  CHECK(exit_code(report.findings) == ExitCode::unreachable);
}

TEST_CASE("sim doctor: a look leaves the home and the run book as they were") {
  const test::TempFolder folder;
  SimRun run;
  node::NodeOptions what = run.options();
  what.home = folder.path() / "home";
  what.run_book = folder.path() / "runs.toml";
  const Report report = examine(run, what);
  CHECK(report.at("run").result == Grade::ok);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(run.nodes.front()->node->members().size() <= 1);
}

}  // namespace collab::doctor
