#include "recipes/recipe.hpp"

#include "recipes/albert.hpp"

#include <nlohmann/json.hpp>

#include "support/doctest.hpp"

namespace collab::recipes {
namespace {

using Json = nlohmann::ordered_json;

Json demo_json() {
  return Json::parse(to_json(preset("demo").value()));
}

/// The sentence with which a recipe is refused; "accepted" when it is not.
std::string refusal(const Json& json) {
  const auto recipe = from_json(json.dump());
  return recipe ? "accepted" : recipe.error().why;
}

}  // namespace

TEST_CASE("recipe: every preset survives the way through its text, and equal recipes give equal text") {
  for (const char* name : {"demo", "tiny", "base", "large"}) {
    CAPTURE(name);
    const Recipe recipe = preset(name).value();
    const auto back = from_json(to_json(recipe));
    REQUIRE(back.has_value());
    CHECK(*back == recipe);
    CHECK(to_json(*back) == to_json(recipe));
  }
}

TEST_CASE("recipe: a missing, unknown or doubled key and a wrong type are refused by name") {
  CHECK(refusal(demo_json()) == "accepted");
  auto json = demo_json();
  json["model"].erase("heads");
  CHECK(refusal(json) == "model.heads is missing");
  json = demo_json();
  json.erase("schedule");
  CHECK(refusal(json) == "schedule is missing or no object");
  json = demo_json();
  json["model"]["dropout"] = 0.1;
  CHECK(refusal(json) == "model.dropout is no field of a recipe");
  json = demo_json();
  json["colour"] = "red";
  CHECK(refusal(json) == "colour is no field of a recipe");
  json = demo_json();
  json["model"]["heads"] = "four";
  CHECK(refusal(json) == "model.heads must be a whole number, not negative");
  json["model"]["heads"] = 4.0;
  CHECK(refusal(json) == "model.heads must be a whole number, not negative");
  json["model"]["heads"] = -4;
  CHECK(refusal(json) == "model.heads must be a whole number, not negative");
  json = demo_json();
  json["schedule"]["learning_rate"] = nullptr;
  CHECK(refusal(json) == "schedule.learning_rate must be a number");
  std::string twice = to_json(preset("demo").value());
  twice.insert(twice.rfind('}'), ", \"seed\": 2");
  CHECK(from_json(twice).error().why == "seed is there twice");
}

TEST_CASE("recipe: text that is no JSON object, or endless, is refused") {
  for (const char* text : {"", "{", "[]", "3", "{\"model\": 1e999}", "nonsense"}) {
    CAPTURE(text);
    CHECK_FALSE(from_json(text).has_value());
  }
  CHECK_FALSE(from_json(std::string(kRecipeTextMax + 1, ' ')).has_value());
  CHECK_FALSE(from_json(std::string(30'000, '[')).has_value());
}

TEST_CASE("recipe: sizes out of range are refused with the range") {
  auto json = demo_json();
  json["model"]["vocabulary"] = 4'000'000'000;
  CHECK(refusal(json) == "model.vocabulary is 4000000000; allowed: 8 to 262144");
  json["model"]["vocabulary"] = std::numeric_limits<std::uint64_t>::max();
  CHECK(refusal(json) == "model.vocabulary is 4294967295; allowed: 8 to 262144");
  json = demo_json();
  json["model"]["init"] = 0.0;
  CHECK(refusal(json) == "model.init is 0; allowed: 1e-06 to 1");
  json = demo_json();
  json["target_batch"] = 0;
  CHECK(refusal(json) == "target_batch is 0; allowed: 1 to 100000000");
}

TEST_CASE("recipe: fields in range that do not fit together are refused") {
  auto json = demo_json();
  json["model"]["heads"] = 3;
  CHECK(refusal(json) == "model.hidden is 128, no multiple of model.heads, 3");
  json = demo_json();
  json["data"]["sequence"] = 65;
  CHECK(refusal(json) == "data.sequence is 65, above model.positions, 64");
  json = demo_json();
  json["schedule"]["warmup_epochs"] = 600;
  CHECK(refusal(json) == "schedule.warmup_epochs is 600; allowed: less than schedule.total_epochs, 600");
  json = demo_json();
  json["microbatch"] = 2048;
  CHECK(refusal(json) == "microbatch is 2048; with data.sequence 64 at most 1024 is allowed");
  json = demo_json();
  json["model"]["vocabulary"] = 262'144;
  json["model"]["embedding"] = 4096;
  CHECK(refusal(json).ends_with("parameters; at most 1073741824 are allowed"));
  json = demo_json();
  json["model"] = {{"vocabulary", 8}, {"embedding", 4},    {"hidden", 8192},    {"layers", 128},
                   {"heads", 128},    {"intermediate", 4}, {"positions", 8192}, {"init", 0.02}};
  json["data"]["sequence"] = 8192;
  json["microbatch"] = 8;
  CHECK(refusal(json) == "microbatch is 8, too many samples at once for a model of this size");
}

TEST_CASE("schedule: the rate rises to its full value, falls to nothing, and never leaves that range") {
  const Schedule schedule{.learning_rate = 0.01, .warmup_epochs = 20, .total_epochs = 600};
  CHECK(schedule.at(0) == doctest::Approx(0.0005));
  CHECK(schedule.at(19) == 0.01);
  CHECK(schedule.at(20) == 0.01);
  CHECK(schedule.at(310) == doctest::Approx(0.005));
  CHECK(schedule.at(599) > 0);
  CHECK(schedule.at(600) == 0);
  CHECK(schedule.at(std::numeric_limits<std::uint64_t>::max()) == 0);
  for (std::uint64_t epoch = 21; epoch < 600; ++epoch) CHECK(schedule.at(epoch) < schedule.at(epoch - 1));
  CHECK(Schedule{.learning_rate = 0.5, .warmup_epochs = 0, .total_epochs = 2}.at(0) == 0.5);
}

TEST_CASE("recipe: of a job that is not known here, all other fields go to its settings and come back") {
  Recipe recipe;
  recipe.job = "next-byte";
  recipe.target_batch = 64;
  recipe.schedule.total_epochs = 30;
  recipe.settings = R"({"context":8,"schedule":{"learning_rate":0.1},"words":["a","b"]})";
  const auto back = from_json(to_json(recipe));
  REQUIRE(back.has_value());
  CHECK(back->settings == recipe.settings);
  CHECK(*back == recipe);
  CHECK(to_json(*back) == to_json(recipe));
  recipe.settings.clear();
  const auto bare = from_json(to_json(recipe));
  REQUIRE(bare.has_value());
  CHECK(*bare == recipe);

  auto json = demo_json();
  json["job"] = "crystal-ball";
  const auto unknown = from_json(json.dump());
  REQUIRE(unknown.has_value());
  CHECK(unknown->job == "crystal-ball");
  CHECK(Json::parse(unknown->settings).at("model").at("heads") == 4);
}

TEST_CASE("recipe: a job's name is of letters that every terminal and every JSON text can show") {
  Recipe recipe;
  for (const std::string name : {"next-byte", "fashion.mnist_2"}) {
    recipe.job = name;
    CHECK(check(recipe).has_value());
  }
  for (const std::string name : {"a\xff", "a b", "Mine", "a\nb", "../a", "\xc3\xa4"}) {
    CAPTURE(name);
    recipe.job = name;
    const auto checked = check(recipe);
    REQUIRE(!checked);
    CHECK(checked.error().why == "job is no name; allowed: a-z 0-9 . _ -");
  }
}

TEST_CASE("recipe: settings that are no object, hide a common field or are nested without end are refused") {
  Recipe recipe;
  recipe.job = "next-byte";
  const auto refused = [&](std::string settings) {
    recipe.settings = std::move(settings);
    const auto checked = check(recipe);
    return checked ? "accepted" : checked.error().why;
  };
  CHECK(refused(R"({"job_name":1})") == "accepted");
  CHECK(refused("[1]") == "settings: the recipe is no JSON object");
  CHECK(refused(R"({"job":"albert"})") == "settings: job is a field of every recipe");
  CHECK(refused(R"({"schedule":{"total_epochs":3}})") == "settings: schedule.total_epochs is a field of every recipe");
  CHECK(refused(R"({"data":3})") == "settings: data.evaluate_every is a field of every recipe");
  CHECK(refused(R"({"a":)" + std::string(20'000, '[') + std::string(20'000, ']') + "}") ==
        "settings: the recipe is nested too deep");
  auto json = demo_json();
  json["job"] = "next-byte";
  json["deep"] = Json::parse(std::string(100, '[') + std::string(100, ']'));
  CHECK(refusal(json) == "the recipe is nested too deep");
  recipe.job = "albert";
  CHECK(refused("{}") == "settings are for other jobs than albert");
}

}  // namespace collab::recipes
