// export_probe TEXT FOLDER: exports an untrained demo model with a tokenizer of TEXT to FOLDER/model, and writes what
// this program makes of some lines, FOLDER/ours.json: ids of 1000 lines, and logits of a few samples. For
// transformers_test.py.

#include "base/file.hpp"
#include "data/prepared.hpp"
#include "data/text.hpp"
#include "jobs/albert/job.hpp"
#include "recipes/albert.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace collab::jobs {
namespace {

constexpr std::size_t kLines = 1000;
constexpr std::size_t kSamples = 8;

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

void probe(const std::filesystem::path& text, const std::filesystem::path& folder) {
  const auto documents = data::read_documents(text);
  std::vector<std::string> sentences;
  for (const auto& document : documents)
    sentences.insert(sentences.end(), document.sentences.begin(), document.sentences.end());
  recipes::Recipe recipe = *recipes::preset("demo");
  const auto tokenizer = data::Tokenizer::train(sentences, recipe.model.vocabulary);
  recipe.model.vocabulary = tokenizer.vocabulary();
  data::PrepareOptions prepare;
  prepare.sequence = recipe.data.sequence;
  data::Prepared::write(folder / "prepared.bin", documents, tokenizer, prepare);
  auto prepared = std::make_shared<const data::Prepared>(data::Prepared::open(folder / "prepared.bin"));
  AlbertJob job(recipe, prepared, tokenizer.bytes(), c10::Device(c10::kCPU));
  job.export_to(folder / "model", {{"epoch", "0"}});

  nlohmann::json out = {{"lines", nlohmann::json::array()}, {"samples", nlohmann::json::array()}};
  std::vector<Sample> samples;
  const std::size_t stride = std::max<std::size_t>(1, sentences.size() / kLines);
  for (std::size_t i = 0; i < sentences.size() && out["lines"].size() < kLines; i += stride) {
    const auto ids = tokenizer.encode(sentences[i]);
    out["lines"].push_back({{"text", sentences[i]}, {"ids", ids}});
    if (samples.size() == kSamples || ids.size() < 4 || ids.size() > recipe.model.positions - 2U) continue;
    Sample sample;
    sample.tokens = {static_cast<std::uint32_t>(data::SpecialPiece::cls)};
    sample.tokens.insert(sample.tokens.end(), ids.begin(), ids.end());
    sample.tokens.push_back(static_cast<std::uint32_t>(data::SpecialPiece::sep));
    sample.first_segment = static_cast<std::uint32_t>(sample.tokens.size());
    sample.masked = {1, 2, 3};
    sample.labels = {ids[0], ids[1], ids[2]};
    samples.push_back(sample);
  }
  const at::NoGradGuard no_gradients;
  for (const Sample& sample : samples) {
    const auto logits = job.model().forward(make_batch(std::span(&sample, 1), c10::Device(c10::kCPU)));
    out["samples"].push_back({{"tokens", sample.tokens},
                              {"masked", sample.masked},
                              {"words", floats(logits.words)},
                              {"order", floats(logits.order)}});
  }
  std::ofstream(folder / "ours.json") << out;
}

}  // namespace
}  // namespace collab::jobs

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  collab::jobs::probe(argv[1], argv[2]);
  return 0;
}
