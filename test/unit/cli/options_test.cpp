#include "cli/options.hpp"

#include "cli/program.hpp"
#include "cli/progress_line.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/doctest.hpp"

namespace collab::cli {
namespace {

using node::Config;
using node::OptionKind;
using node::OptionRow;
using node::Origin;

node::OptionTable table() {
  OptionRow run_id{"run-id", OptionKind::text, "Run", "NAME", "", "name of the run"};
  OptionRow batch{"target-batch", OptionKind::number, "Run", "SAMPLES", "128", "samples that make an epoch", 1, 1e6};
  OptionRow bootstrap{"bootstrap", OptionKind::list, "Run", "ADDR", "", "where the run can be reached"};
  OptionRow quiet{"quiet", OptionKind::toggle, "Output", "", "", "warnings and errors only"};
  return {run_id, batch, bootstrap, quiet};
}

Synopsis synopsis() {
  Synopsis out;
  out.program = "collab-test";
  out.sentence = "tests options";
  out.commands = {{"run", "does it"}, {"status", "says how it is"}};
  out.examples = {"collab-test --run-id x"};
  out.read_on = "README.md";
  return out;
}

Parsed run(Config& config, const std::vector<std::string>& arguments) {
  return parse(synopsis(), config, arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  Config config(table());
  try {
    run(config, arguments);
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::usage);
    return failure.cause() + " | " + failure.remedy();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("options: a flag whose value may be left out has a meaning alone, before other flags and at the end") {
  node::OptionTable rows = table();
  OptionRow json{"json", OptionKind::text, "Output", "[FILE]", "", "one line"};
  json.alone = "-";
  rows.push_back(json);
  const std::map<std::vector<std::string>, std::string> meant = {{{"--json"}, "-"},
                                                                 {{"--json", "--quiet"}, "-"},
                                                                 {{"--json", "-"}, "-"},
                                                                 {{"--json", "a.json", "--quiet"}, "a.json"},
                                                                 {{"--json=a.json"}, "a.json"}};
  for (const auto& [arguments, value] : meant) {
    Config config(rows);
    run(config, arguments);
    CHECK(config.text("json") == value);
  }
  CHECK(refusal({"--target-batch"}) != "accepted");
}

TEST_CASE("options: flags beat the environment, the environment beats files, files beat what is built in") {
  const auto file = std::filesystem::temp_directory_path() / "collab_options_test.toml";
  std::ofstream(file) << "target_batch = 256\nrun-id = \"file\"\nbootstrap = [\"a:1\", \"b:2\"]\n";
  Config config(table());
  CHECK(config.number("target-batch") == 128);
  run(config, {"--config", file.string(), "--run-id", "flag"});
  config.read_environment(
      [](const char* name) { return std::string(name) == "COLLAB_RUN_ID" ? "environment" : nullptr; });
  CHECK(config.text("run-id") == "flag");
  CHECK(config.origin("run-id") == Origin::flag);
  CHECK(config.number("target-batch") == 256);
  CHECK(config.origin("target-batch") == Origin::config_file);
  CHECK(config.list("bootstrap") == std::vector<std::string>{"a:1", "b:2"});
  CHECK(config.describe().find("(flag, --run-id)") != std::string::npos);
  std::filesystem::remove(file);
}

TEST_CASE("options: commands, lists, toggles and values after an equals sign") {
  Config config(table());
  const Parsed parsed =
      run(config, {"status", "--bootstrap", "a:1", "--bootstrap", "b:2", "--quiet", "--target-batch=7"});
  CHECK(parsed.command == "status");
  CHECK(config.list("bootstrap") == std::vector<std::string>{"a:1", "b:2"});
  CHECK(config.toggle("quiet"));
  CHECK(config.number("target-batch") == 7);
  Config other(table());
  CHECK(run(other, {}).command == "run");
  CHECK_FALSE(other.toggle("quiet"));
}

TEST_CASE("options: what is wrong is named, with what would be right") {
  CHECK(refusal({"--run-idd", "x"}) == "unknown option --run-idd | did you mean --run-id?");
  CHECK(refusal({"--target-batch", "0"}) ==
        "target-batch cannot be \"0\" (from --target-batch) | give a whole number from 1 to 1000000");
  CHECK(refusal({"--target-batch", "many"}).find("cannot be \"many\"") != std::string::npos);
  CHECK(refusal({"stauts"}) == "collab-test does not know \"stauts\" | did you mean status?");
  CHECK(refusal({"--config", "/nowhere.toml"}).find("cannot read /nowhere.toml") == 0);
  CHECK(refusal({"--run-id"}).find("accepted") == std::string::npos);
}

TEST_CASE("options: an item of a list that is no text is refused, not left out") {
  const auto file = std::filesystem::temp_directory_path() / "collab_options_list_test.toml";
  std::ofstream(file) << "bootstrap = [\"a:1\", [\"b:2\"]]\n";
  CHECK(refusal({"--config", file.string()}).find("bootstrap in ") == 0);
  std::filesystem::remove(file);
}

TEST_CASE("options: help names every option and stays on one screen") {
  const std::string text = help(synopsis(), table());
  for (const OptionRow& row : table()) CHECK(text.find("--" + row.name) != std::string::npos);
  CHECK(text.find("[128]") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 60);
}

TEST_CASE("options: what only one command reads is in the help of that command") {
  Synopsis with_keys = synopsis();
  with_keys.commands.push_back({"keys", "create: a key", 1, "Keys"});
  node::OptionTable more = table();
  more.push_back({"claims", OptionKind::list, "Keys", "CLAIM", "", "of a token"});
  CHECK(help(with_keys, more).find("--claims") == std::string::npos);
  CHECK(help(with_keys, more).find("create: a key; see --help") != std::string::npos);
  CHECK(help(with_keys, more, "keys").find("--claims CLAIM") != std::string::npos);
  CHECK(help(with_keys, more, "keys").find("--run-id") == std::string::npos);
  CHECK(help(with_keys, more, "status") == help(with_keys, more));
}

TEST_CASE("program: a failure says what and what to do, and decides the exit code") {
  const int code = run_program("collab-test", []() -> int { throw Failure(ExitCode::data, "no text", "--data"); });
  CHECK(code == 8);
  const Failure failure(ExitCode::data, "no text in /x", "give --data");
  CHECK(describe("collab-test", failure) == "collab-test: no text in /x. Try: give --data\n");
}

TEST_CASE("progress line: numbers are grouped, and narrow terminals drop fields from the right") {
  ProgressFacts facts;
  facts.run_id = "sahajbert";
  facts.epoch = 1204;
  facts.loss = 3.412;
  facts.peers = 12;
  facts.samples = 2710;
  facts.target_batch = 4096;
  facts.eta_s = 41;
  facts.own_samples = 182;
  facts.up_bytes_per_s = 1.2e6;
  facts.down_bytes_per_s = 1.3e6;
  CHECK(progress_line(facts, 200, true) ==
        "sahajbert  epoch 1,204  loss 3.412  12 peers  ▓▓▓▓▓▓░░░░ 2,710/4,096  next step in 41 s  you 182 (6.7 %)  "
        "↑1.2 ↓1.3 MB/s");
  CHECK(progress_line(facts, 30, false) == "sahajbert  epoch 1,204");
  facts.loss = std::nan("");
  CHECK(progress_line(facts, 200, true).find("loss") == std::string::npos);
}

}  // namespace collab::cli
