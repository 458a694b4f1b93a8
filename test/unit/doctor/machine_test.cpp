#include "doctor/machine.hpp"

#include "recipes/albert.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <functional>
#include <sys/resource.h>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

/// Of a machine with plenty of everything, changed.
std::vector<Finding> judged(const std::function<void(Machine&)>& change, const Needs& needs = {}) {
  Machine machine;
  machine.home = machine.home_on = "/srv/me/run";
  machine.disk_free_bytes = machine.memory_free_bytes = std::uint64_t(64) << 30U;
  machine.files_max = 1024;
  change(machine);
  return judge(machine, needs);
}

/// The one that is not ok; there is one at most.
Finding odd_one(const std::vector<Finding>& findings) {
  Finding odd = findings.front();
  int count = 0;
  for (const Finding& finding : findings) {
    if (finding.result == Grade::ok) continue;
    odd = finding;
    ++count;
  }
  CHECK(count <= 1);
  CHECK(odd.remedy.empty() == (odd.result == Grade::ok));
  return odd;
}

}  // namespace

TEST_CASE("doctor: a machine with plenty of everything is well") {
  const auto findings = judged([](Machine&) {});
  CHECK(worst(findings) == Grade::ok);
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].measured == "/srv/me/run");
  CHECK(findings[3].measured == "1024 files");
  const auto nowhere_yet = judged([](Machine& machine) { machine.home_on = "/srv/me"; });
  CHECK(nowhere_yet[0].measured == "/srv/me/run, to be made in /srv/me");
  const auto unlimited = judged([](Machine& machine) { machine.files_max = RLIM_INFINITY; });
  CHECK(unlimited[3].result == Grade::ok);
  CHECK(unlimited[3].measured == "no limit");
}

TEST_CASE("doctor: disk, memory, files and home fail below the least and warn below enough") {
  struct Case {
    std::string name;
    std::function<void(Machine&)> change;
    Grade grade;
    std::string words;
  };
  const Needs needs;
  const std::vector<Case> cases = {
      {"disk", [](Machine& m) { m.disk_free_bytes = 0; }, Grade::fail, "0 B free on /srv/me/run"},
      {"disk", [&](Machine& m) { m.disk_free_bytes = needs.disk_least - 1; }, Grade::fail, "a run takes"},
      {"disk", [&](Machine& m) { m.disk_free_bytes = needs.disk_least; }, Grade::warn, "a run takes"},
      {"memory", [&](Machine& m) { m.memory_free_bytes = needs.memory_least - 1; }, Grade::fail, "268 MB free"},
      {"memory", [&](Machine& m) { m.memory_free_bytes = needs.memory_enough - 1; }, Grade::warn, "1.1 GB free"},
      {"files", [](Machine& m) { m.files_max = 64; }, Grade::fail, "64 files at once"},
      {"files", [](Machine& m) { m.files_max = 256; }, Grade::warn, "256 files at once"},
      {"home", [](Machine& m) { m.home_problem = "cannot write to /: Read-only"; }, Grade::fail, "Read-only"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.words);
    const Finding finding = odd_one(judged(one.change));
    CHECK(finding.name == one.name);
    CHECK(finding.result == one.grade);
    CHECK(finding.measured.find(one.words) != std::string::npos);
    CHECK(finding.code == (one.grade == Grade::fail ? ExitCode::machine : ExitCode::done));
  }
}

TEST_CASE("doctor: what a run takes grows with its model, its batch and the checkpoints that are kept") {
  const recipes::Recipe demo = *recipes::preset("demo");
  const recipes::Recipe base = *recipes::preset("base");
  const Needs small = needs_of(demo, 5);
  const Needs large = needs_of(base, 5);
  CHECK(small.of_run);
  CHECK(small.disk_least < small.disk_enough);
  CHECK(large.disk_least == 12 * recipes::parameter_values(base) + (std::uint64_t(16) << 20U));
  CHECK(large.memory_least > small.memory_least);
  CHECK(needs_of(demo, 50).disk_enough > small.disk_enough);
  recipes::Recipe wide = demo;
  wide.microbatch *= 8;
  CHECK(needs_of(wide, 5).memory_enough > small.memory_enough);
  CHECK(needs_of(wide, 5).memory_least == small.memory_least);
  recipes::Recipe own;  // whose sizes mean nothing
  own.job = "next-byte";
  CHECK_FALSE(needs_of(own, 5).of_run);
  CHECK(needs_of(own, 5).memory_least == Needs().memory_least);
  // measured at a microbatch of 16: 191 MB; an estimate that warns has to be above, and within reason
  recipes::Recipe measured = demo;
  measured.microbatch = 16;
  CHECK(needs_of(measured, 5).memory_enough > 191'000'000U);
  CHECK(needs_of(measured, 5).memory_enough < 400'000'000U);
}

TEST_CASE("doctor: a slow processor and a card that does not work are warned of") {
  CHECK(judge_cpu(98, 1).result == Grade::ok);
  CHECK(judge_cpu(98, 1).measured == "98.0 GFLOP/s on 1 thread");
  CHECK(judge_cpu(9.9, 4).result == Grade::warn);
  CHECK(judge_device("CPU, 1 thread", "").result == Grade::ok);
  const Finding card = judge_device("CPU, 1 thread", "libcuda.so.1 is missing");
  CHECK(card.result == Grade::warn);
  CHECK(card.measured.find("libcuda.so.1") != std::string::npos);
}

TEST_CASE("doctor: a home that is not there yet is measured where it would be, and not made") {
  const test::TempFolder folder;
  const auto home = folder.path() / "a" / "b";
  const Machine machine = measure_machine(home);
  CHECK(machine.home == home);
  CHECK(machine.home_on == folder.path());
  CHECK(machine.home_problem.empty());
  CHECK(machine.disk_free_bytes > 0);
  CHECK(machine.memory_free_bytes > 0);
  CHECK(machine.files_max > 0);
  CHECK(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder.path() / "file") << "x";
  CHECK(measure_machine(folder.path() / "file").home_problem == (folder.path() / "file").string() + " is no folder");
  CHECK_FALSE(measure_machine(folder.path() / "file" / "home").home_problem.empty());
}

}  // namespace collab::doctor
