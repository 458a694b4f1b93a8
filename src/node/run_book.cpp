#include "node/run_book.hpp"

#include "base/file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <string_view>

namespace collab::node {
namespace {

constexpr std::size_t kFileBytesMax = 1'000'000;

[[noreturn]] void refuse(const std::filesystem::path& file, const toml::source_region& where, std::string_view why) {
  throw Failure(ExitCode::usage, fmt::format("the run book {}, line {}: {}", file.string(), where.begin.line, why),
                "correct that line, or remove the file; joining a run writes its entry anew");
}

/// The text at `node`, refused with its line when it is none or `parse` does not take it.
template <class Parse>
auto take_text(const std::filesystem::path& file, const toml::node& node, std::string_view what, Parse parse) {
  const auto* text = node.as_string();
  if (text == nullptr) refuse(file, node.source(), fmt::format("{} is no text", what));
  try {
    return parse(text->get());
  } catch (const Failure& wrong) {
    refuse(file, node.source(), wrong.cause());
  }
}

PeerId parse_authority(const std::string& text) {
  const auto key = PeerId::parse(text);
  if (!key) throw Failure(ExitCode::usage, fmt::format("the authority is no key: {}", key.error().message()), "");
  return *key;
}

RunBookEntry take_entry(const std::filesystem::path& file, const toml::table& table) {
  RunBookEntry entry;
  for (const auto& [key, value] : table) {
    if (key.str() == "authority") {
      entry.authority = take_text(file, value, "the authority", parse_authority);
    } else if (key.str() == "addresses") {
      const auto* list = value.as_array();
      if (list == nullptr) refuse(file, value.source(), "addresses is no list");
      if (list->size() > kLinkAddressesMax) refuse(file, value.source(), "more addresses than 16");
      for (const toml::node& item : *list)
        entry.addresses.push_back(take_text(file, item, "an address", parse_peer_address));
    } else {
      refuse(file, value.source(), fmt::format("{} is neither addresses nor authority", key.str()));
    }
  }
  if (entry.addresses.empty()) refuse(file, table.source(), "the run has no addresses");
  return entry;
}

std::string text_of(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const Bytes bytes = read_file(file, kFileBytesMax);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

RunBook read_text(const std::filesystem::path& file, std::string_view text) {
  toml::table values;
  try {
    values = toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    refuse(file, error.source(), error.description());
  }
  RunBook book;
  for (const auto& [key, value] : values) {
    const auto* table = value.as_table();
    if (table == nullptr || !is_run_id(key.str())) refuse(file, value.source(), "that is no [run]");
    book.emplace(std::string(key.str()), take_entry(file, *table));
  }
  return book;
}

}  // namespace

std::vector<std::filesystem::path> run_book_files(const std::function<const char*(const char*)>& variable) {
  std::vector<std::filesystem::path> files;
  files.emplace_back("/etc/collab/runs.toml");
  const char* folder = variable("XDG_CONFIG_HOME");
  const char* home = variable("HOME");
  if (folder != nullptr && *folder != '\0') {
    files.push_back(std::filesystem::path(folder) / "collab" / "runs.toml");
  } else if (home != nullptr && *home != '\0') {
    files.push_back(std::filesystem::path(home) / ".config" / "collab" / "runs.toml");
  }
  return files;
}

RunBook read_run_book(const std::vector<std::filesystem::path>& files) {
  RunBook book;
  for (const auto& file : files) {
    for (auto& [run_id, entry] : read_text(file, text_of(file))) book[run_id] = std::move(entry);
  }
  return book;
}

bool remember_run(const std::filesystem::path& file, const std::string& run_id, const RunBookEntry& entry) {
  // looked at and added to is the same text: another process may write the file in between, with the same run
  std::string text = text_of(file);
  if (read_text(file, text).contains(run_id)) return false;
  if (!text.empty() && !text.ends_with('\n')) text += "\n";
  if (!text.empty()) text += "\n";
  std::vector<std::string> addresses;
  for (const PeerAddress& at : entry.addresses) addresses.push_back("\"" + to_string(at) + "\"");
  // a dot would make a table in a table
  text += fmt::format("[\"{}\"]\naddresses = [{}]\n", run_id, fmt::join(addresses, ", "));
  if (entry.authority) text += fmt::format("authority = \"{}\"\n", entry.authority->text());
  write_file(file, text);
  return true;
}

}  // namespace collab::node
