#include "data/text.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>

namespace collab::data {

namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

/// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none (RFC 3629: shortest form only, no
/// surrogates, at most U+10FFFF).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t index = 1; index < size; ++index)
    if ((byte(index) & 0xc0U) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool beyond = first == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : size;
}

std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_bytes(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool begins_with_any(std::string_view text, std::span<const std::string_view> marks, std::size_t& size) {
  for (const std::string_view mark : marks) {
    if (!text.starts_with(mark)) continue;
    size = mark.size();
    return true;
  }
  return false;
}

struct SentenceEnd {
  std::size_t bytes = 0;  ///< of the marks and what closes with them; 0: no end here
  bool certain = false;   ///< a danda ends a sentence whatever follows
};

SentenceEnd sentence_end(std::string_view text) {
  constexpr std::array<std::string_view, 2> dandas = {"।", "॥"};
  constexpr std::array<std::string_view, 3> stops = {".", "?", "!"};
  constexpr std::array<std::string_view, 7> closing = {"\"", "'", ")", "]", "”", "’", "»"};
  SentenceEnd end;
  for (std::size_t size = 0;; end.bytes += size) {
    const std::string_view rest = text.substr(end.bytes);
    if (begins_with_any(rest, dandas, size))
      end.certain = true;
    else if (!begins_with_any(rest, stops, size) && (end.bytes == 0 || !begins_with_any(rest, closing, size)))
      return end;
  }
}

[[noreturn]] void refuse(const std::filesystem::path& file, std::string_view why, std::string remedy) {
  throw Failure(ExitCode::data, fmt::format("cannot use the text in {}: {}", file.string(), why), std::move(remedy));
}

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    refuse(file, error ? error.message() : "it is no regular file", "remove it from the folder");
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kTextFileBytesMax) refuse(file, "it is larger than 2 GiB", "split it into several files");
  std::ifstream stream(file, std::ios::binary);
  std::string content(error ? 0 : size, '\0');
  if (error || !stream.read(content.data(), static_cast<std::streamsize>(size)))
    refuse(file, "it cannot be read", "check its permissions and the disk");
  return content;
}

std::string unpack(const std::filesystem::path& file, std::string_view packed) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  std::string content;
  std::string buffer(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  std::size_t left = 1;  // 0 at the end of a frame
  bool more = true;      // the decoder may still hold output when its input is used up
  while (in.pos < in.size || more) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(left)) refuse(file, fmt::format("zstd says \"{}\"", ZSTD_getErrorName(left)), "copy it again");
    content.append(buffer, 0, out.pos);
    if (content.size() > kTextFileBytesMax)
      refuse(file, "it is larger than 2 GiB when unpacked", "split it into several files");
    more = left != 0 && out.pos == out.size;
  }
  if (left != 0) refuse(file, "it ends in the middle of a zstd frame", "copy it again");
  return content;
}

void append_documents(std::vector<Document>& documents, const std::string& name, std::string_view text,
                      std::size_t& number) {
  std::vector<std::string> sentences = split_sentences(text);
  if (sentences.empty()) return;
  documents.push_back({fmt::format("{}#{}", name, ++number), std::move(sentences)});
}

/// Calls `use(line, number)` for every line, numbers from 1.
template <class Use>
void for_each_line(std::string_view text, Use use) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void read_plain(std::vector<Document>& documents, const std::string& name, std::string_view text) {
  std::size_t documents_here = 0;
  const char* begin = text.data();
  for_each_line(text, [&](std::string_view line, std::size_t) {
    if (!trimmed(line).empty()) return;
    append_documents(documents, name, {begin, static_cast<std::size_t>(line.data() - begin)}, documents_here);
    begin = line.data() + line.size();
  });
  append_documents(documents, name, {begin, static_cast<std::size_t>(text.data() + text.size() - begin)},
                   documents_here);
}

void read_json_lines(std::vector<Document>& documents, const std::string& name, std::string_view text,
                     const std::filesystem::path& file) {
  std::size_t documents_here = 0;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (trimmed(line).empty()) return;
    const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto found = value.is_object() ? value.find("text") : value.end();
    if (found == value.end() || !found->is_string())
      refuse(file, fmt::format("line {} is no JSON object with a string \"text\"", number),
             R"(write one {"text": "..."} a line)");
    append_documents(documents, name, found->get_ref<const std::string&>(), documents_here);
  });
}

enum class Format { none, plain, plain_zstd, json_lines };

Format format_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (name.ends_with(".txt")) return Format::plain;
  if (name.ends_with(".txt.zst")) return Format::plain_zstd;
  if (name.ends_with(".jsonl")) return Format::json_lines;
  return Format::none;
}

/// Paths below `folder` that may hold text, sorted by bytes.
std::vector<std::string> text_files(const std::filesystem::path& folder) {
  std::error_code error;
  const auto check = [&] {
    if (!error) return;
    throw Failure(ExitCode::data, fmt::format("cannot read the text folder {}: {}", folder.string(), error.message()),
                  "give a folder of .txt, .txt.zst or .jsonl files that you may read");
  };
  std::vector<std::string> names;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  check();
  std::error_code unknown;  // then it is listed, and reading it will say what is wrong
  for (; entry != std::filesystem::recursive_directory_iterator(); entry.increment(error), check())
    if (format_of(entry->path()) != Format::none && !entry->is_directory(unknown))
      names.push_back(entry->path().lexically_relative(folder).generic_string());
  std::sort(names.begin(), names.end());
  return names;
}

void read_file_into(std::vector<Document>& documents, const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path file = folder / name;
  const Format format = format_of(file);
  std::string content = read_file(file);
  if (format == Format::plain_zstd) content = unpack(file, content);
  if (const auto bad = first_bad_byte(content))
    refuse(file, fmt::format("byte {} is not UTF-8", *bad), "convert it: iconv -f ENCODING -t UTF-8");
  std::string_view text = content;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  if (format == Format::json_lines)
    read_json_lines(documents, name, text, file);
  else
    read_plain(documents, name, text);
}

}  // namespace

std::vector<std::string> split_sentences(std::string_view text) {
  std::vector<std::string> sentences;
  std::size_t begin = 0;
  const auto cut = [&](std::size_t end) {
    if (const std::string_view sentence = trimmed(text.substr(begin, end - begin)); !sentence.empty())
      sentences.emplace_back(sentence);
    begin = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    const SentenceEnd end = sentence_end(text.substr(at));
    at += std::max<std::size_t>(end.bytes, 1);
    const bool space_follows = at == text.size() || kSpace.find(text[at]) != kSpace.npos;
    if (end.bytes > 0 ? end.certain || space_follows : text[at - 1] == '\n') cut(at);
  }
  cut(text.size());
  return sentences;
}

std::vector<Document> read_documents(const std::filesystem::path& folder) {
  const std::vector<std::string> names = text_files(folder);
  std::vector<Document> documents;
  for (const std::string& name : names) read_file_into(documents, folder, name);
  if (documents.empty())
    throw Failure(ExitCode::data,
                  fmt::format("there is no text in {}: {} files end in .txt, .txt.zst or .jsonl{}", folder.string(),
                              names.size(), names.empty() ? "" : ", and none has a sentence"),
                  "give a folder of UTF-8 text, or make one with tools/bengali_text");
  return documents;
}

}  // namespace collab::data
