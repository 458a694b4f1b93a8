#include "monitor/api.hpp"

#include "monitor/metric_table.hpp"
#include "monitor/pages.hpp"
#include "sim/simulation.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

/// The label set of a series of a histogram without `le`, to group its buckets.
std::string without_le(const std::string& labels) {
  static const std::regex le(",le=\"[^\"]*\"");
  return std::regex_replace(labels, le, "");
}

/// Reads text format 0.0.4 as promtool would; empty when it has nothing to complain about.
class FormatCheck {
 public:
  std::vector<std::string> complaints;
  std::map<std::string, double> values;  ///< by series

  explicit FormatCheck(const std::string& text) {
    if (!text.empty() && text.back() != '\n') complain("no line end at the end", text.substr(text.rfind('\n') + 1));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) line.starts_with("#") ? comment(line) : sample(line);
    finish_family();
  }

 private:
  void complain(const std::string& what, const std::string& line) { complaints.push_back(what + ": " + line); }

  void comment(const std::string& line) {
    static const std::regex form("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
    std::smatch parts;
    if (!std::regex_match(line, parts, form)) return complain("neither HELP nor TYPE", line);
    if (parts[2] != family_) {
      finish_family();
      family_ = parts[2];
      if (!families_.insert(family_).second) complain("family told twice", line);
    }
    if (has_samples_) complain("comment after samples", line);
    if (parts[1] == "HELP") {
      if (help_) complain("second HELP", line);
      if (type_) complain("HELP after TYPE", line);
      help_ = true;
      return;
    }
    if (type_) complain("second TYPE", line);
    type_ = parts[3];
    const bool is_total = family_.ends_with("_total");
    if ((*type_ == "counter") != is_total) complain("a counter, and only a counter, is a total", line);
    if (*type_ != "counter" && *type_ != "gauge" && *type_ != "histogram") complain("unknown type", line);
  }

  void sample(const std::string& line) {
    static const std::regex form(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} )re"
        R"re((NaN|[+-]Inf|-?[0-9][0-9.]*(?:e[+-]?[0-9]+)?))re");
    std::smatch parts;
    if (!std::regex_match(line, parts, form)) return complain("no sample", line);
    const std::string name = parts[1];
    const std::string labels = parts[2];
    has_samples_ = true;
    if (!type_) complain("sample without TYPE", line);
    const bool in_family = type_ == "histogram"
                               ? name == family_ + "_bucket" || name == family_ + "_sum" || name == family_ + "_count"
                               : name == family_;
    if (!in_family) complain("sample of another family", line);
    const double value = parts[3] == "NaN" ? 0 : std::stod(parts[3]);
    if (!values.emplace(name + "{" + labels + "}", value).second) complain("the same series twice", line);
    static const std::regex label_name("([a-zA-Z_][a-zA-Z0-9_]*)=\"(?:[^\"\\\\]|\\\\.)*\"");
    std::set<std::string> names;
    for (std::sregex_iterator label(labels.begin(), labels.end(), label_name), end; label != end; ++label)
      if (!names.insert((*label)[1]).second) complain("a label twice", line);
    if (!names.contains("run")) complain("no run", line);
    if (type_ == "histogram") histogram_sample(name, labels, value, line);
  }

  void histogram_sample(const std::string& name, const std::string& labels, double value, const std::string& line) {
    if (name.ends_with("_count")) {
      counts_[labels] = value;
    } else if (name.ends_with("_bucket")) {
      auto& buckets = buckets_[without_le(labels)];
      if (!buckets.empty() && buckets.back() > value) complain("buckets go down", line);
      buckets.push_back(value);
      if (labels.find("le=\"+Inf\"") != std::string::npos) infinities_[without_le(labels)] = value;
    }
  }

  void finish_family() {
    if (!family_.empty() && (!has_samples_ || !help_)) complain("no samples, or no HELP", family_);
    if (counts_ != infinities_) complain("the +Inf bucket is not the count", family_);
    if (counts_.size() != buckets_.size()) complain("buckets without count", family_);
    help_ = has_samples_ = false;
    type_.reset();
    counts_.clear();
    infinities_.clear();
    buckets_.clear();
  }

  std::string family_;
  std::set<std::string> families_;
  bool help_ = false;
  bool has_samples_ = false;
  std::optional<std::string> type_;
  std::map<std::string, double> counts_;
  std::map<std::string, double> infinities_;
  std::map<std::string, std::vector<double>> buckets_;
};

struct ApiFixture {
  ApiFixture() {
    Watched watched{[this] { return view_swarm(facts); }, rounds, events, metrics, world.clock(), &losses};
    routes = api_routes(std::move(watched));
    facts.unix_ms = world.clock().unix_ms();
    facts.run.run_id = "say \"hi\"\\\n";  // every letter that needs an escape
    facts.run.epoch = 7;
    facts.run.connected = true;
    for (const char* role : {"full", "full", "coordinator", "made up\"} 1\nevil 2"}) {
      MemberFacts member;
      member.id.key[0] = static_cast<unsigned char>(facts.members.size());
      member.role = role;
      member.reachability = "open";
      facts.members.push_back(member);
    }
  }
  HttpAnswer get(const std::string& path, const std::map<std::string, std::string>& query = {}) {
    return routes.pages.at(path)({path, query});
  }

  sim::Simulation world;
  SwarmFacts facts;
  Rounds rounds;
  Events events{world.executor(), world.clock()};
  Metrics metrics;
  LossHistory losses;
  HttpRoutes routes;
};

}  // namespace

TEST_CASE("metrics page: its format has nothing promtool would complain about") {
  ApiFixture fixture;
  fixture.metrics.add("collab_refused_total", 1, {{"reason", "a \"b\" \\ c\nd"}});
  fixture.metrics.add("collab_bytes_total", 5, {{"direction", "up"}, {"class", "bulk"}, {"path", "direct"}});
  fixture.metrics.observe("collab_rtt_seconds", 0.01);
  RoundView round;
  round.result = "committed";
  round.exchange_s = 1e9;  // beyond the last bucket
  count_round(fixture.metrics, round);
  count_round(fixture.metrics, round);
  round.result = "failed";
  count_round(fixture.metrics, round);

  fixture.get("/metrics");
  const HttpAnswer answer = fixture.get("/metrics");  // the second time nothing may have doubled
  CHECK(answer.content_type == "text/plain; version=0.0.4; charset=utf-8");
  const FormatCheck check(answer.body);
  for (const std::string& complaint : check.complaints) FAIL_CHECK(complaint);
  const std::string run = R"(run="say \"hi\"\\\n")";
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto found = check.values.find(name + "{" + run + labels + "}");
    REQUIRE_MESSAGE(found != check.values.end(), name << labels);
    return found->second;
  };
  CHECK(value("collab_epoch") == 7);
  CHECK(value("collab_peers", R"(,role="full",reachability="open")") == 2);
  CHECK(value("collab_peers", R"(,role="other",reachability="open")") == 1);
  CHECK(value("collab_peers", R"(,role="monitor",reachability="open")") == 0);
  CHECK(value("collab_rounds_total", R"(,result="committed")") == 2);
  CHECK(value("collab_rounds_total", R"(,result="failed")") == 1);
  CHECK(value("collab_round_duration_seconds_count", R"(,phase="exchange")") == 3);
  CHECK(value("collab_round_duration_seconds_count", R"(,phase="commit")") == 2);
  CHECK(value("process_resident_memory_bytes") > 1e6);
  CHECK(value("process_open_fds") >= 3);
  CHECK(value("process_cpu_seconds_total") > 0);
}

TEST_CASE("metrics page: the check itself sees what is wrong") {
  const auto complaints = [](const std::string& text) { return FormatCheck(text).complaints.size(); };
  const std::string good = "# HELP a_total x\n# TYPE a_total counter\na_total{run=\"r\"} 1\n";
  CHECK(complaints(good) == 0);
  CHECK(complaints(good + good) > 0);
  CHECK(complaints(good + "a_total{run=\"r\"} 2\n") > 0);
  CHECK(complaints(good + "b_total{run=\"r\"} 2\n") > 0);
  CHECK(complaints("# HELP a x\n# TYPE a counter\na{run=\"r\"} 1\n") > 0);
  CHECK(complaints("# TYPE a gauge\na{run=\"r\"} 1\n") > 0);
  CHECK(complaints("# HELP a x\n# TYPE a gauge\na{run=\"r\"s\"} 1\n") > 0);
  CHECK(complaints("# HELP a x\n# TYPE a gauge\na{run=\"r\"} nan\n") > 0);
  CHECK(complaints("# HELP a x\n# TYPE a gauge\na{run=\"r\",b=\"1\",b=\"2\"} 1\n") > 0);
}

TEST_CASE("metrics page: a peer that left is counted no more") {
  ApiFixture fixture;
  fixture.get("/metrics");
  fixture.facts.members.clear();
  fixture.get("/metrics");
  CHECK(fixture.metrics.value("collab_peers", {{"role", "full"}, {"reachability", "open"}}) == 0);
}

TEST_CASE("api: the state tells where the events go on, and health whether the directory answers") {
  ApiFixture fixture;
  fixture.events.add(NewEvent());
  const auto state = nlohmann::json::parse(fixture.get("/api/v1/state").body);
  CHECK(state["run"]["last_event_id"] == 1);
  CHECK(state["run"]["run_id"] == "say \"hi\"\\\n");
  CHECK(state["peers"].size() == 4);
  auto health = nlohmann::json::parse(fixture.get("/healthz").body);
  CHECK(health["status"] == "ok");
  CHECK(health["connected"] == true);
  fixture.facts.run.connected = false;
  health = nlohmann::json::parse(fixture.get("/healthz").body);
  CHECK(health["connected"] == false);
  CHECK(fixture.routes.streams.contains("/api/v1/events"));
}

TEST_CASE("api: the state shows as many rounds as are asked for, the newest first") {
  ApiFixture fixture;
  for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
    RoundView round;
    round.epoch = epoch;
    fixture.rounds.add(round);
  }
  const auto epochs = [&](const std::map<std::string, std::string>& query) {
    std::vector<std::uint64_t> out;
    const auto state = nlohmann::json::parse(fixture.get("/api/v1/state", query).body);
    for (const auto& round : state["rounds"]) out.push_back(round["epoch"]);
    return out;
  };
  CHECK(epochs({}) == std::vector<std::uint64_t>{5, 4, 3, 2, 1});
  CHECK(epochs({{"rounds", "2"}}) == std::vector<std::uint64_t>{5, 4});
  CHECK(epochs({{"rounds", "0"}}).empty());
  CHECK(epochs({{"rounds", "many"}}).size() == 5);
}

TEST_CASE("api: the history is columns of equal length, from where the reader is") {
  ApiFixture fixture;
  PeerId second;
  second.key[0] = 1;
  for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
    fixture.losses.note_training(PeerId(), epoch, 8.0 - static_cast<double>(epoch));
    fixture.losses.note_training(second, epoch, 9.0 - static_cast<double>(epoch));
  }
  fixture.losses.note_heldout(second, 4, 4.75);
  const auto rows = [&](const std::map<std::string, std::string>& query) {
    return nlohmann::json::parse(fixture.get("/api/v1/history", query).body);
  };
  const auto latest = rows({{"after", "3"}});
  CHECK(latest["training"]["epoch"] == nlohmann::json({4, 5}));
  CHECK(latest["training"]["loss"] == nlohmann::json({4.5, 3.5}));
  CHECK(latest["training"]["loss_low"] == nlohmann::json({4.0, 3.0}));
  CHECK(latest["training"]["loss_high"] == nlohmann::json({5.0, 4.0}));
  CHECK(latest["heldout"]["loss"] == nlohmann::json({4.75}));
  CHECK(rows({})["training"]["epoch"].size() == 5);
  CHECK(rows({{"after", "-1"}})["training"]["epoch"].size() == 5);
  CHECK(rows({{"after", "5"}})["heldout"]["epoch"].empty());
}

TEST_CASE("pages: everything that a page loads is served, with its type and a name") {
  HttpRoutes routes;
  add_pages(routes);
  const std::regex reference(R"re((?:src|href)="(/[^"]*)"|from '\.(/[^']+)')re");
  std::set<std::string> wanted = {"/"};
  for (const auto& [path, page] : routes.pages) {
    const HttpAnswer answer = page({path, {}});
    CHECK_MESSAGE(answer.etag.size() == 18, path);
    CHECK_MESSAGE(!answer.body.empty(), path);
    const bool is_script = path.ends_with(".js");
    CHECK_MESSAGE((answer.content_type == "text/javascript; charset=utf-8") == is_script, path);
    for (std::sregex_iterator at(answer.body.begin(), answer.body.end(), reference), end; at != end; ++at)
      wanted.insert((*at)[1].matched ? (*at)[1] : (*at)[2]);
  }
  for (const std::string& path : wanted) CHECK_MESSAGE(routes.pages.contains(path), path);
  CHECK(wanted.size() > 10);
}

TEST_CASE("pages: no script or style stands in the page itself, nothing comes from another host") {
  HttpRoutes routes;
  add_pages(routes);
  const std::string page = routes.pages.at("/")({"/", {}}).body;
  CHECK(page.find("<style") == std::string::npos);
  CHECK(page.find("style=") == std::string::npos);
  CHECK(page.find("//") == std::string::npos);
  const std::regex inline_script("<script(?![^>]* src=)|\\son\\w+=");
  CHECK_FALSE(std::regex_search(page, inline_script));
}

}  // namespace collab::monitor
