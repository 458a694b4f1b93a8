#include "data/tokenizer.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <fstream>
#include <unordered_map>

namespace collab::data {

namespace {

constexpr std::array<std::string_view, kSpecialPieces> kSpecialTexts = {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"};

/// What transformers' AlbertTokenizer does before its model sees the text (with `keep_accents` and without
/// `do_lower_case`), so that an exported model gets the ids it was trained on.
std::string as_albert(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view pair = text.substr(at, 2);
    const bool quote = pair == "``" || pair == "''";
    const bool space = text[at] >= '\t' && text[at] <= '\r';
    out += quote ? '"' : space ? ' ' : text[at];
    at += quote ? 1 : 0;
  }
  return out;
}

/// Whether sentencepiece will find something to learn in `text`. Its trainer ends the process when it finds nothing at
/// all, and skips what holds its own marks: a null, U+2585, and a tab (a space by now).
bool is_usable(std::string_view text) {
  if (text.find('\0') != text.npos || text.find("\u2585") != text.npos) return false;
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    // Visible ASCII, or a lead byte of U+00C0 to U+0FFF or of U+4000 to U+CFFF: blocks of letters, without odd spaces.
    return (byte > 0x20 && byte < 0x7f) || (byte >= 0xc3 && byte <= 0xe0) || (byte >= 0xe4 && byte <= 0xec);
  });
}

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string> sentences) : rest_(sentences) { find(); }

  bool done() const override { return rest_.empty(); }
  void Next() override {
    rest_ = rest_.subspan(1);
    find();
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void find() {
    while (!rest_.empty() && !is_usable(rest_.front())) rest_ = rest_.subspan(1);
    if (!rest_.empty()) value_ = as_albert(rest_.front());
  }

  std::span<const std::string> rest_;
  std::string value_;
};

std::unordered_map<std::string, std::string> trainer_options(std::uint32_t vocabulary) {
  return {
      {"model_type", "unigram"},
      {"normalization_rule_name", "nfkc"},  // the default, nmt_nfkc, cuts Bengali words at their zero-width non-joiners
      {"vocab_size", std::to_string(vocabulary)},
      {"hard_vocab_limit", "false"},  // a small text gives what it has
      {"character_coverage", "0.9999"},
      {"byte_fallback", "false"},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"control_symbols", "[CLS],[SEP],[MASK]"},  // the next free ids; text that looks like them stays text
      {"split_digits", "true"},  // else pieces such as "1,", which the slow AlbertTokenizer takes apart once more
      {"num_threads", "1"},
      {"input_sentence_size", "0"},  // all, so nothing is sampled
      {"shuffle_input_sentence", "false"},
      {"max_sentence_length", "1048576"},
      {"minloglevel", "2"},
  };
}

constexpr const char* kTooSmall = "give more text, or a preset with a vocabulary that fits it";

}  // namespace

struct Tokenizer::Model {
  std::string bytes;
  sentencepiece::SentencePieceProcessor processor;
};

Tokenizer::Tokenizer(std::unique_ptr<Model> model) : model_(std::move(model)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::train(std::span<const std::string> sentences, std::uint32_t vocabulary) {
  if (vocabulary <= kSpecialPieces || vocabulary > kVocabularyMax)
    throw Failure(ExitCode::data, fmt::format("cannot train a tokenizer of {} pieces", vocabulary),
                  fmt::format("ask for {} to {}", kSpecialPieces + 1, kVocabularyMax));
  Sentences iterator(sentences);
  if (iterator.done())
    throw Failure(ExitCode::data, fmt::format("cannot train a tokenizer: no letter in {} sentences", sentences.size()),
                  kTooSmall);
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(trainer_options(vocabulary), &iterator, &bytes);
  if (!status.ok())
    throw Failure(ExitCode::data,
                  fmt::format("cannot train a tokenizer of {} pieces on {} sentences: sentencepiece says \"{}\"",
                              vocabulary, sentences.size(), status.error_message()),
                  kTooSmall);
  return from_bytes(std::move(bytes));
}

Tokenizer Tokenizer::load(const std::filesystem::path& file) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(file, error);
  std::string bytes(is_file ? std::filesystem::file_size(file, error) : 0, '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!is_file || error || !stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw Failure(ExitCode::data, fmt::format("cannot read the tokenizer {}", file.string()),
                  "check the path, or remove the file so that it is made or fetched again");
  return from_bytes(std::move(bytes));
}

Tokenizer Tokenizer::from_bytes(std::string bytes) {
  auto model = std::make_unique<Model>();
  model->bytes = std::move(bytes);
  const auto refuse = [](std::string_view why) -> Failure {
    return {ExitCode::data, fmt::format("the tokenizer is damaged or not ours: {}", why),
            "remove the file so that it is made or fetched again"};
  };
  const auto status = model->processor.LoadFromSerializedProto(model->bytes);
  if (!status.ok()) throw refuse(status.error_message());
  const int pieces = model->processor.GetPieceSize();
  if (pieces <= int{kSpecialPieces} || pieces > int{kVocabularyMax}) throw refuse(fmt::format("{} pieces", pieces));
  for (std::size_t id = 0; id < kSpecialTexts.size(); ++id)
    if (model->processor.IdToPiece(static_cast<int>(id)) != kSpecialTexts[id])
      throw refuse(fmt::format("piece {} is not {}", id, kSpecialTexts[id]));
  return Tokenizer(std::move(model));
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = model_->processor.Encode(as_albert(text), &ids);
  assert(status.ok());  // it fails for a processor without model only
  return {ids.begin(), ids.end()};
}

std::uint32_t Tokenizer::vocabulary() const {
  return static_cast<std::uint32_t>(model_->processor.GetPieceSize());
}

const std::string& Tokenizer::bytes() const {
  return model_->bytes;
}

}  // namespace collab::data
