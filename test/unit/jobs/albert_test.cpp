#include "base/error.hpp"
#include "base/random.hpp"
#include "jobs/albert/evaluate.hpp"
#include "jobs/albert/export.hpp"
#include "jobs/albert/job.hpp"
#include "jobs/registry.hpp"
#include "optim/stepper.hpp"
#include "support/temp_folder.hpp"
#include "tensor/safetensors.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iterator>
#include <memory>

#include "support/doctest.hpp"

namespace collab::jobs {
namespace {

namespace fs = std::filesystem;

/// Documents of an invented language: 200 words of syllables, short sentences.
std::vector<data::Document> documents() {
  Random random(1);
  const std::vector<std::string> syllables = {"ka", "lo", "mi", "ra", "tu", "sen", "po", "gi", "va", "ne"};
  std::vector<std::string> words;
  for (int i = 0; i < 200; ++i) {
    std::string word;
    for (std::uint64_t n = 2 + random.below(3); n > 0; --n) word += syllables[random.below(syllables.size())];
    words.push_back(word);
  }
  std::vector<data::Document> documents(40);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    documents[i].name = "document " + std::to_string(i);
    for (int s = 0; s < 20; ++s) {
      std::string sentence;
      for (std::uint64_t n = 3 + random.below(8); n > 0; --n) sentence += words[random.below(words.size())] + " ";
      documents[i].sentences.push_back(sentence + ".");
    }
  }
  return documents;
}

struct World {
  World() {
    at::set_num_threads(1);
    const auto texts = documents();
    std::vector<std::string> sentences;
    for (const auto& document : texts)
      sentences.insert(sentences.end(), document.sentences.begin(), document.sentences.end());
    const auto trained = data::Tokenizer::train(sentences, 300);
    data::Prepared::write(folder / "text", texts, trained, {.sequence = 64, .held_out_one_in = 4});
    text = std::make_shared<const data::Prepared>(data::Prepared::open(folder / "text"));
    tokenizer = trained.bytes();
    recipe.model.vocabulary = trained.vocabulary();
  }
  AlbertJob job() const { return {recipe, text, tokenizer, c10::Device(c10::kCPU)}; }

  test::TempFolder folder;
  std::shared_ptr<const data::Prepared> text;
  std::string tokenizer;
  recipes::Recipe recipe = recipes::preset("demo").value();
};

std::vector<optim::Unit> units(std::uint64_t first, std::uint64_t count) {
  std::vector<optim::Unit> list;
  for (std::uint64_t i = first; i < first + count; ++i) list.push_back({0, i, 1});
  return list;
}

/// The gradient that `job` has left in its parameters, and nothing is left there.
std::vector<float> take_gradient(AlbertJob& job) {
  std::vector<float> flat;
  for (const auto& [name, tensor] : optim::named_parameters(job.module())) {
    const at::Tensor gradient = tensor.grad().contiguous();
    const auto* values = gradient.const_data_ptr<float>();
    flat.insert(flat.end(), values, values + gradient.numel());
    tensor.grad().zero_();
  }
  return flat;
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{a[i]} * a[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("albert: the module has the recipe's names and shapes in order, and its first parameters") {
  const World world;
  AlbertJob job = world.job();
  const optim::FlatParameters flat(optim::named_parameters(job.module()));
  CHECK(first_difference(flat.schema(), recipes::albert_schema(world.recipe)).empty());
  std::vector<float> expected(flat.parameters().size());
  recipes::initial_parameters(world.recipe, expected);
  CHECK(std::equal(expected.begin(), expected.end(), flat.parameters().begin()));
}

TEST_CASE("albert: an untrained model is as unsure as chance") {
  const World world;
  AlbertJob job = world.job();
  const auto loss = job.gradients(units(0, 64));
  CHECK(loss.samples == 64);
  CHECK(std::abs(loss.mlm - std::log(world.recipe.model.vocabulary)) < 0.2);
  CHECK(loss.sop == doctest::Approx(std::log(2)).epsilon(0.05));
  CHECK(loss.total == doctest::Approx(loss.mlm + loss.sop));
}

TEST_CASE("albert: gradients of parts, weighted by their samples, are the gradient of the whole") {
  World world;
  world.recipe.microbatch = 24;
  AlbertJob job = world.job();
  const auto whole_loss = job.gradients(units(0, 24));
  const auto whole = take_gradient(job);
  std::vector<float> sum(whole.size());
  double loss = 0;
  for (const auto& [first, count] : {std::pair{0, 5}, {5, 18}, {23, 1}}) {
    loss += job.gradients(units(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count))).total * count;
    const auto part = take_gradient(job);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i] * static_cast<float>(count) / 24.0F;
  }
  CHECK(relative_distance(whole, sum) < 1e-5);
  CHECK(loss / 24 == doctest::Approx(whole_loss.total));

  world.recipe.microbatch = 7;  // the job's own cut into microbatches
  AlbertJob sparing = world.job();
  CHECK(sparing.gradients(units(0, 24)).total == doctest::Approx(whole_loss.total));
  CHECK(relative_distance(whole, take_gradient(sparing)) < 1e-5);
  CHECK(sparing.gradients({}).samples == 0);
}

TEST_CASE("albert: what a sample gets does not depend on who is in the batch with it") {
  const World world;
  const AlbertModel model(world.recipe, c10::Device(c10::kCPU));
  const at::NoGradGuard no_grad;
  std::vector<Sample> samples;
  std::vector<std::uint32_t> long_tokens(61, 20), short_tokens(9, 30), ends = {5, 9}, long_ends = {30, 61};
  samples.push_back(make_sample({long_tokens, long_ends}, 1, 200));
  samples.push_back(make_sample({short_tokens, ends}, 2, 200));
  const auto together = model.forward(make_batch(samples, model.device()));
  const auto alone = model.forward(make_batch(std::span(samples).last(1), model.device()));
  const auto blanks = static_cast<std::int64_t>(samples[1].masked.size());
  CHECK((together.words.slice(0, together.words.size(0) - blanks) - alone.words).abs().max().item<float>() < 1e-5F);
  CHECK((together.order[1] - alone.order[0]).abs().max().item<float>() < 1e-5F);
}

TEST_CASE("albert: windows without blanks or without an order have no loss and make no NaN") {
  const World world;
  const AlbertModel model(world.recipe, c10::Device(c10::kCPU));
  const std::vector<std::uint32_t> unknown = {1, 1, 1}, ends = {3};
  const std::vector<Sample> samples = {make_sample({unknown, ends}, 1, 200)};
  const Batch batch = make_batch(samples, model.device());
  const auto losses = loss(model.forward(batch), batch);
  CHECK(losses.total.item<double>() == 0);
  losses.total.backward();
  for (const auto& [name, tensor] : optim::named_parameters(model.module()))
    if (tensor.grad().defined()) CHECK(tensor.grad().abs().sum().item<double>() == 0);
}

TEST_CASE("albert: thirty epochs of LAMB teach it something that holds for text it has not seen") {
  const World world;
  AlbertJob job = world.job();
  optim::StepperOptions options;
  options.schedule = [](std::uint64_t epoch) { return epoch < 5 ? 2e-3 * static_cast<double>(epoch + 1) : 1e-2; };
  optim::Stepper stepper(job.module(), optim::lamb(lamb_options(world.recipe)), options);
  const auto before = job.evaluate();
  for (std::uint64_t epoch = 0; epoch < 30; ++epoch) {
    job.gradients(units(epoch * 16, 16));
    stepper.collect_gradients();
    std::vector<float> averaged(stepper.gradients().begin(), stepper.gradients().end());
    CHECK(stepper.step(averaged, epoch).outcome == optim::StepOutcome::stepped);
  }
  const auto after = job.evaluate();
  REQUIRE(after[0].first == "mlm_loss");
  CHECK(after[0].second < before[0].second - 0.7);
}

TEST_CASE("evaluation: the same parameters get the same answers, from held-out text only") {
  const World world;
  AlbertJob job = world.job();
  CHECK(job.evaluate() == job.evaluate());
  const auto found = evaluate(job.model(), *world.text, data::Part::held_out, {.microbatch = 5, .samples_max = 7});
  CHECK(found.samples == 7);
  CHECK(found.blanks > 7);
  CHECK(found.mlm_loss == doctest::Approx(std::log(world.recipe.model.vocabulary)).epsilon(0.05));
  const auto other = evaluate(job.model(), *world.text, data::Part::held_out, {.microbatch = 3, .samples_max = 7});
  CHECK(other.mlm_loss == doctest::Approx(found.mlm_loss));
}

TEST_CASE("evaluation: the unigram baseline lies between nothing and knowing only the size of the vocabulary") {
  const World world;
  const double loss = unigram_loss(*world.text, data::Part::held_out);
  CHECK(loss > 1);
  CHECK(loss < std::log(world.recipe.model.vocabulary));
  CHECK(unigram_loss(*world.text, data::Part::train) < loss + 0.1);
}

TEST_CASE("export: the folder has all four files, is replaced as a whole, and says what is in it") {
  const World world;
  AlbertJob job = world.job();
  const fs::path folder = world.folder / "out" / "model";
  for (const char* epoch : {"1", "2"}) job.export_to(folder, {{"epoch", epoch}});
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  CHECK(files == std::vector<std::string>{"config.json", "model.safetensors", "spiece.model", "tokenizer_config.json"});
  CHECK(std::distance(fs::directory_iterator(folder.parent_path()), {}) == 1);  // nothing temporary stays

  const std::string bytes = test::content(folder / "model.safetensors");
  const auto file = safetensors::read(std::as_bytes(std::span(bytes)));
  REQUIRE(file.has_value());
  CHECK(file->metadata().at("epoch") == "2");
  CHECK(file->metadata().at("format") == "pt");
  const Schema schema = recipes::albert_schema(world.recipe);
  CHECK(file->tensors().size() == schema.tensors.size());
  std::vector<float> expected(schema.values());
  recipes::initial_parameters(world.recipe, expected);
  auto values = expected.begin();
  for (const TensorInfo& info : schema.tensors) {
    const auto* tensor = file->find(info.name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->shape == info.shape);
    std::vector<float> read(info.values());
    REQUIRE(safetensors::to_float32(*tensor, read));
    CHECK(std::equal(read.begin(), read.end(), values));
    values += static_cast<std::ptrdiff_t>(info.values());
  }
  CHECK(test::content(folder / "spiece.model") == world.tokenizer);
  CHECK(test::content(folder / "config.json") == recipes::config_json(world.recipe));
  const auto json = nlohmann::json::parse(test::content(folder / "tokenizer_config.json"));
  CHECK(json["keep_accents"] == true);
  CHECK(json["do_lower_case"] == false);
}

TEST_CASE("export: a place that cannot be written to is told to the user") {
  const World world;
  AlbertJob job = world.job();
  CHECK_THROWS_AS(job.export_to("/proc/collab/model", {}), Failure);
}

TEST_CASE("registry: the averaged gradient of ALBERT is clipped to the norm of its recipe, which is 1") {
  World world;
  JobInputs inputs;
  inputs.tokenizer = world.folder / "spiece.model";
  std::ofstream(inputs.tokenizer, std::ios::binary) << world.tokenizer;
  inputs.prepared = world.folder / "text";
  inputs.recipe = world.recipe;
  CHECK(standard_jobs().make(inputs).stepper.grad_norm_max == 1.0);
  inputs.recipe.optimizer.grad_norm_max = 0.25;
  CHECK(standard_jobs().make(inputs).stepper.grad_norm_max == 0.25);
}

TEST_CASE("job: text prepared for another vocabulary or longer samples is refused") {
  World world;
  ++world.recipe.model.vocabulary;
  CHECK_THROWS_AS(world.job(), Failure);
  --world.recipe.model.vocabulary;
  world.recipe.data.sequence = 32;
  CHECK_THROWS_AS(world.job(), Failure);
}

}  // namespace collab::jobs
