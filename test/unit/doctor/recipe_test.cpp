#include "doctor/recipe.hpp"

#include "recipes/albert.hpp"

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

bool only_albert(const std::string& job) {
  return job == recipes::kAlbert;
}

RecipeCheck check(const std::string& json) {
  return check_recipe(json, only_albert, std::nullopt);
}

std::string of_job(const std::string& job) {
  recipes::Recipe recipe;
  recipe.job = job;
  return recipes::to_json(recipe);
}

}  // namespace

TEST_CASE("doctor: a recipe that this program can train says its job, and the samples that are computed at once") {
  const std::string demo = recipes::to_json(*recipes::preset("demo"));
  const RecipeCheck fine = check(demo);
  CHECK(fine.finding.result == Grade::ok);
  CHECK(fine.finding.measured.starts_with("albert, "));
  REQUIRE(fine.recipe);
  const RecipeCheck smaller = check_recipe(demo, only_albert, 3);
  CHECK(smaller.finding.measured == "albert, 3 samples at once");
  REQUIRE(smaller.recipe);
  CHECK(smaller.recipe->microbatch == 3);
}

TEST_CASE("doctor: a recipe that cannot be read, and a job that this program lacks, are told with what helps") {
  const RecipeCheck torn = check("{");
  CHECK(torn.finding.code == ExitCode::incompatible);
  CHECK(torn.finding.measured.starts_with("it cannot be read: "));
  CHECK(torn.finding.remedy == "a newer version of collab");
  CHECK_FALSE(torn.recipe);
  const RecipeCheck other = check(of_job("crystal-ball"));
  CHECK(other.finding.code == ExitCode::incompatible);
  CHECK(other.finding.measured == "this run trains \"crystal-ball\", which this program does not know");
  CHECK(other.finding.remedy.find("a program that adds this job") != std::string::npos);
  CHECK(other.recipe);
}

TEST_CASE("doctor: what a stranger's recipe says is cut and cannot move the cursor") {
  const std::string rude = R"("\u001b[2J)" + std::string(5000, 'x') + R"(": 1)";
  for (const std::string& json : {"{" + rude + "," + rude + "}", of_job("go\x1b[2Jaway" + std::string(500, 'x'))}) {
    const std::string said = check(json).finding.measured;
    CAPTURE(said);
    CHECK(said.find('\x1b') == std::string::npos);
    CHECK(said.size() < 300);
  }
}

}  // namespace collab::doctor
