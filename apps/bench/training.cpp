#include "training.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr auto kFoundTime = std::chrono::minutes(10);       // a tokenizer of much text
constexpr auto kAnswerPatience = std::chrono::minutes(30);  // of one slice, or for joining
constexpr const char* kRunName = "bench";

TimePoint in(Duration time) {
  return std::chrono::steady_clock::now() + time;
}

/// Of peers that were in one run: what it committed, and how long the parts of a step took on average.
void add_epochs(const std::vector<json>& works, Slice& slice) {
  double count = 0;
  for (const json& work : works) {
    for (const json& epoch : work.at("epochs")) {
      slice.epochs[epoch.at("epoch").get<std::uint64_t>()] = epoch.at("samples").get<std::uint64_t>();
      slice.handing_over_s += epoch.at("handing_over_s").get<double>();
      slice.averaging_s += epoch.at("averaging_s").get<double>();
      slice.stepping_s += epoch.at("stepping_s").get<double>();
      ++count;
    }
  }
  for (double* mean : {&slice.handing_over_s, &slice.averaging_s, &slice.stepping_s}) *mean /= std::max(count, 1.0);
}

}  // namespace

Training::Training(TrainingOptions options) : options_(std::move(options)) {
  trainer_ = program_of_build("collab-bench-trainer", "bench");
  const auto coordinator = program_of_build("collab-coordinator", "coordinator");
  if (trainer_.empty() || coordinator.empty()) {
    throw Failure(ExitCode::usage,
                  fmt::format("{} was not built: training needs a build with libtorch",
                              trainer_.empty() ? "collab-bench-trainer" : "collab-coordinator"),
                  "tools/setup, then meson setup without -Dtorch=disabled");
  }
  folder_.emplace();
  // nothing of the user's: not his run book, and threads that wait must not spin on processors that others need
  ::setenv("XDG_CONFIG_HOME", (folder_->path / "config").c_str(), 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  std::vector<std::string> words = {"--run-id",
                                    kRunName,
                                    "--new-run",
                                    "--json",
                                    "--no-lan",
                                    "--admission",
                                    "open",
                                    "--dashboard",
                                    "off",
                                    "--checkpoint-every",
                                    "0",
                                    "--listen",
                                    "127.0.0.1:0",
                                    "--preset",
                                    options_.preset,
                                    "--target-batch",
                                    std::to_string(options_.target_batch),
                                    "--epochs",  // however many steps are measured, the run does not end in between
                                    "1000000000",
                                    "--home",
                                    (folder_->path / "founder").string(),
                                    "--log-level",
                                    options_.log_level};
  if (!options_.data.empty()) words.insert(words.end(), {"--data", options_.data});
  coordinator_.push_back(std::make_unique<Child>("the coordinator", words, coordinator));
  const json ready = json::parse(hear(coordinator_, {true}, in(kFoundTime), options_.stop).front());
  run_ = fmt::format("{}#{}", kRunName, ready.at("key").get<std::string>());
  address_ = ready.at("addresses").at(0).get<std::string>();
}

Training::~Training() {
  for (const auto& trainer : trainers_) trainer->terminate();
  trainers_.clear();
  for (const auto& coordinator : coordinator_) coordinator->terminate();
  coordinator_.clear();
}

std::size_t Training::add_bare() {
  return add("bare");
}

std::size_t Training::add_peer() {
  return add("collab");
}

std::size_t Training::add(const std::string& kind) {
  const std::size_t index = trainers_.size();
  const std::string name = fmt::format("trainer {} ({})", index, kind);
  trainers_.push_back(std::make_unique<Child>(name, std::vector<std::string>(), trainer_));
  const json setup = {{"order", "setup"},
                      {"kind", kind},
                      {"run", run_},
                      {"founder", (folder_->path / "founder").string()},
                      {"threads", options_.threads},
                      {"home", (folder_->path / fmt::format("peer-{}", index)).string()},
                      {"address", address_},
                      {"log_level", options_.log_level}};
  ask_some({index}, {setup});
  return index;
}

Slice Training::train(const std::vector<std::size_t>& whom, std::uint64_t first_unit, std::uint64_t samples,
                      std::uint64_t steps) {
  coordinator_.front()->skip_lines();
  std::uint64_t epoch = 0;
  for (const json& answer : ask_some(whom, std::vector<json>(whom.size(), {{"order", "ready"}})))
    epoch = std::max(epoch, answer.at("epoch").get<std::uint64_t>());
  std::vector<json> orders;
  for (std::size_t i = 0; i < whom.size(); ++i) {
    orders.push_back({{"order", "train"},
                      {"first_unit", first_unit + i * samples},
                      {"samples", samples},
                      {"until_epoch", steps == 0 ? 0 : epoch + steps}});
  }
  const TimePoint start = std::chrono::steady_clock::now();
  const auto works = ask_some(whom, orders);
  Slice slice;
  slice.seconds = to_seconds(std::chrono::steady_clock::now() - start);
  for (const json& work : works) {
    const auto computed = work.at("samples").get<std::uint64_t>();
    slice.samples += computed;
    slice.cpu_s += work.at("cpu_s").get<double>();
    slice.steps += work.at("steps").get<std::uint64_t>();
    const auto own_s = work.at("seconds").get<double>();
    slice.own_s += own_s / static_cast<double>(works.size());
    slice.own_samples_per_s += static_cast<double>(computed) / own_s;
  }
  add_epochs(works, slice);
  return slice;
}

std::vector<json> Training::ask_some(const std::vector<std::size_t>& whom, const std::vector<json>& orders) {
  std::vector<bool> asked(trainers_.size(), false);
  for (std::size_t i = 0; i < whom.size(); ++i) {
    trainers_[whom[i]]->write_line(orders[i].dump());
    asked[whom[i]] = true;
  }
  const auto lines = hear(trainers_, asked, in(kAnswerPatience), options_.stop);
  std::vector<json> answers;
  for (const std::size_t index : whom) answers.push_back(json::parse(lines[index]));
  return answers;
}

}  // namespace collab::bench
