#include "data/prepared.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/prepared_file.hpp"
#include "data/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace collab::data {

namespace {

std::span<const unsigned char> chars(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

template <class T>
std::string_view as_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

bool is_held_out(const Document& document, std::uint32_t one_in) {
  if (one_in == 0) return false;
  Hasher hasher("collab.held_out");
  hasher.add(chars(document.name));
  for (const std::string& sentence : document.sentences) hasher.add(chars(sentence));
  const Digest digest = hasher.finish();
  std::uint64_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value % one_in == 0;
}

WindowTable cut_documents(std::span<const Document> documents, const Tokenizer& tokenizer,
                          const PrepareOptions& options, Part part) {
  WindowTable table;
  for (const Document& document : documents) {
    if (is_held_out(document, options.held_out_one_in) != (part == Part::held_out)) continue;
    std::vector<std::vector<std::uint32_t>> sentences;
    for (const std::string& sentence : document.sentences) sentences.push_back(tokenizer.encode(sentence));
    append_windows(table, sentences, options.sequence - kWindowExtra);
  }
  return table;
}

/// Puts `more` behind `table`.
void append(WindowTable& table, const WindowTable& more) {
  const std::uint64_t tokens = table.tokens.size();
  const std::uint64_t sentences = table.sentence_ends.size();
  table.tokens.insert(table.tokens.end(), more.tokens.begin(), more.tokens.end());
  table.sentence_ends.insert(table.sentence_ends.end(), more.sentence_ends.begin(), more.sentence_ends.end());
  for (std::size_t index = 1; index < more.first_token.size(); ++index) {
    table.first_token.push_back(tokens + more.first_token[index]);
    table.first_sentence.push_back(sentences + more.first_sentence[index]);
  }
}

std::string serialize(const FileHeader& header, const WindowTable& table) {
  std::string bytes(as_bytes(std::span(&header, 1)));
  bytes += as_bytes(std::span<const std::uint64_t>(table.first_token));
  bytes += as_bytes(std::span<const std::uint64_t>(table.first_sentence));
  bytes += as_bytes(std::span<const std::uint32_t>(table.tokens));
  bytes += as_bytes(std::span<const std::uint32_t>(table.sentence_ends));
  const Digest digest = Hasher(kFileDomain).add(chars(bytes)).finish();
  bytes += as_bytes(std::span<const unsigned char>(digest));
  return bytes;
}

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const noexcept { return number_; }

 private:
  int number_;
};

}  // namespace

struct Prepared::Mapping {
  ~Mapping() {
    if (size > 0) ::munmap(address, size);
  }

  void* address = nullptr;
  std::size_t size = 0;
  FileHeader header;
  std::span<const std::uint64_t> first_token, first_sentence;
  std::span<const std::uint32_t> tokens, sentence_ends;
  Digest hash{};

  std::uint64_t windows() const { return header.train_windows + header.held_out_windows; }

  Window window(std::uint64_t index) const {
    return {tokens.subspan(first_token[index], first_token[index + 1] - first_token[index]),
            sentence_ends.subspan(first_sentence[index], first_sentence[index + 1] - first_sentence[index])};
  }

  /// Empty, or what is wrong. In this order: nothing is used before it is checked.
  std::string_view map(int descriptor);
  std::string_view check_header() const;
  std::string_view cut_into_arrays();
  std::string_view check_arrays() const;
};

std::string_view Prepared::Mapping::map(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return "it is no regular file";
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < sizeof(FileHeader) + sizeof(Digest)) return "it is too short";
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) return "it cannot be mapped into memory";
  address = mapped;
  size = bytes;
  std::memcpy(&header, address, sizeof header);
  std::memcpy(hash.data(), static_cast<const unsigned char*>(address) + size - hash.size(), hash.size());
  return {};
}

std::string_view Prepared::Mapping::check_header() const {
  if (header.magic != kFileMagic) return "it is no prepared text";
  if (header.version != kFileVersion) return "it has another version";
  const std::span body(static_cast<const unsigned char*>(address), size - hash.size());
  if (Hasher(kFileDomain).add(body).finish() != hash) return "its hash is wrong: some bytes were lost or changed";
  if (header.sequence < kSequenceMin || header.sequence > kSequenceMax) return "its sequence length is absurd";
  if (header.vocabulary <= kSpecialPieces || header.vocabulary > kVocabularyMax) return "its vocabulary is absurd";
  if (header.train_windows == 0) return "it has no window to train on";
  return {};
}

std::string_view Prepared::Mapping::cut_into_arrays() {
  // No count of a whole file exceeds its bytes; so bounded, the sums below cannot overflow.
  for (const std::uint64_t count : {header.tokens, header.sentences, header.train_windows, header.held_out_windows})
    if (count > size) return "it counts more than it holds";
  const std::uint64_t borders = windows() + 1;
  const std::uint64_t wanted = sizeof header + 16 * borders + 4 * (header.tokens + header.sentences) + hash.size();
  if (wanted != size) return "its size does not fit its counts";
  const auto* numbers = reinterpret_cast<const std::uint64_t*>(static_cast<const std::byte*>(address) + sizeof header);
  first_token = {numbers, borders};
  first_sentence = {numbers + borders, borders};
  const auto* ids = reinterpret_cast<const std::uint32_t*>(numbers + 2 * borders);
  tokens = {ids, header.tokens};
  sentence_ends = {ids + header.tokens, header.sentences};
  return {};
}

std::string_view Prepared::Mapping::check_arrays() const {
  const auto are_borders = [](std::span<const std::uint64_t> borders, std::uint64_t end) {
    return borders.front() == 0 && borders.back() == end &&
           std::adjacent_find(borders.begin(), borders.end(), std::greater_equal<>()) == borders.end();
  };
  if (!are_borders(first_token, tokens.size()) || !are_borders(first_sentence, sentence_ends.size()))
    return "its windows do not follow each other";
  for (std::uint64_t index = 0; index < windows(); ++index) {
    const Window each = window(index);
    if (each.tokens.size() > header.sequence - kWindowExtra) return "a window is too long";
    const auto& ends = each.sentence_ends;
    if (ends.front() == 0 || ends.back() != each.tokens.size() ||
        std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()) != ends.end())
      return "its sentences do not follow each other";
  }
  const auto is_text = [&](std::uint32_t id) {
    return id < header.vocabulary && (id >= kSpecialPieces || id == std::uint32_t(SpecialPiece::unknown));
  };
  if (!std::all_of(tokens.begin(), tokens.end(), is_text)) return "a token is outside the vocabulary";
  return {};
}

Prepared::Prepared(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
Prepared::~Prepared() = default;
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;

void Prepared::write(const std::filesystem::path& file, std::span<const Document> documents, const Tokenizer& tokenizer,
                     const PrepareOptions& options) {
  if (options.sequence < kSequenceMin || options.sequence > kSequenceMax)
    throw Failure(ExitCode::usage, fmt::format("cannot prepare text for sequences of {} tokens", options.sequence),
                  fmt::format("choose {} to {}", kSequenceMin, kSequenceMax));
  WindowTable table = cut_documents(documents, tokenizer, options, Part::train);
  const WindowTable held_out = cut_documents(documents, tokenizer, options, Part::held_out);
  FileHeader header;
  header.vocabulary = tokenizer.vocabulary();
  header.sequence = options.sequence;
  header.held_out_one_in = options.held_out_one_in;
  header.train_windows = table.first_token.size() - 1;
  header.held_out_windows = held_out.first_token.size() - 1;
  if (header.train_windows == 0)
    throw Failure(ExitCode::data,
                  fmt::format("no text is left to train on: {} documents, 1 in {} held out", documents.size(),
                              options.held_out_one_in),
                  "give more text; in .txt files a blank line begins a new document");
  append(table, held_out);
  header.tokens = table.tokens.size();
  header.sentences = table.sentence_ends.size();
  write_file(file, serialize(header, table));
}

Prepared Prepared::open(const std::filesystem::path& file) {
  const auto refuse = [&](std::string_view why) -> Failure {
    return {ExitCode::data, fmt::format("cannot use the prepared text {}: {}", file.string(), why),
            "remove the file, so that it is made or fetched again"};
  };
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.number() < 0) throw refuse(std::strerror(errno));
  auto mapping = std::make_unique<Mapping>();
  std::string_view wrong = mapping->map(descriptor.number());
  if (wrong.empty()) wrong = mapping->check_header();
  if (wrong.empty()) wrong = mapping->cut_into_arrays();
  if (wrong.empty()) wrong = mapping->check_arrays();
  if (!wrong.empty()) throw refuse(wrong);
  return Prepared(std::move(mapping));
}

std::uint64_t Prepared::windows(Part part) const noexcept {
  return part == Part::train ? mapping_->header.train_windows : mapping_->header.held_out_windows;
}

Window Prepared::window(Part part, std::uint64_t index) const {
  assert(index < windows(part));
  return mapping_->window(part == Part::train ? index : mapping_->header.train_windows + index);
}

std::uint32_t Prepared::sequence() const noexcept {
  return mapping_->header.sequence;
}

std::uint32_t Prepared::vocabulary() const noexcept {
  return mapping_->header.vocabulary;
}

std::vector<std::uint64_t> Prepared::counts(Part part) const {
  const std::uint64_t border = mapping_->first_token[mapping_->header.train_windows];
  const auto tokens = part == Part::train ? mapping_->tokens.first(border) : mapping_->tokens.subspan(border);
  std::vector<std::uint64_t> counts(vocabulary(), 0);
  for (const std::uint32_t id : tokens) ++counts[id];
  return counts;
}

const Digest& Prepared::hash() const noexcept {
  return mapping_->hash;
}

}  // namespace collab::data
