#include "node/config.hpp"

#include "base/text.hpp"
#include "net/proxy.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <sstream>

namespace collab::node {
namespace {

std::string with_hyphens(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string variable_of(std::string_view name) {
  std::string out = "COLLAB_";
  for (const char c : name) out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_toggle(std::string_view text) {
  if (text == "on" || text == "true" || text == "yes" || text == "1") return true;
  if (text == "off" || text == "false" || text == "no" || text == "0") return false;
  return std::nullopt;
}

/// Why `value` cannot be the row's, or nothing.
std::string problem(const OptionRow& row, std::string_view value) {
  if (row.kind == OptionKind::toggle) return parse_toggle(value) ? "" : "on or off";
  if (row.kind != OptionKind::number && row.kind != OptionKind::real) return "";
  const auto number = parse<double>(value);
  const bool whole = row.kind == OptionKind::real || parse<std::int64_t>(value).has_value();
  if (number && whole && *number >= row.min && *number <= row.max) return "";
  const std::string kind = row.kind == OptionKind::number ? "a whole number" : "a number";
  if (std::isinf(row.min) && std::isinf(row.max)) return kind;
  return fmt::format("{} from {} to {}", kind, row.min, row.max);
}

/// A TOML value as the text a flag would have; nothing for a table or a date.
std::optional<std::string> as_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "on" : "off";
  return std::nullopt;
}

}  // namespace

std::string_view name(Origin origin) noexcept {
  constexpr std::array<std::string_view, 7> kNames = {"built in",    "manifest",    "system file", "run file",
                                                      "config file", "environment", "flag"};
  return kNames[static_cast<std::size_t>(origin)];
}

std::string shown(const OptionRow& row, const std::string& value) {
  if (!row.login || value.empty() || value == "off") return value;
  if (!net::parse_proxy(value)) return "not shown: no HTTP proxy";  // the place may be missing, and a login be all
  const std::size_t at = value.rfind('@');
  return at == std::string::npos ? value : "USER:PASSWORD" + value.substr(at);
}

Config::Config(OptionTable table) : table_(std::move(table)) {
  for (const OptionRow& row : table_) {
    if (!row.built_in.empty()) set(row.name, row.built_in, Origin::built_in);
  }
}

const OptionRow& Config::row(std::string_view name) const {
  const auto found = std::find_if(table_.begin(), table_.end(), [&](const OptionRow& row) { return row.name == name; });
  assert(found != table_.end() && "an option that is in no table");
  return *found;
}

void Config::set(std::string_view name, std::string_view value, Origin origin, std::string_view where) {
  const std::string from = where.empty() ? "" : fmt::format(" (from {})", where);
  const auto found = std::find_if(table_.begin(), table_.end(), [&](const OptionRow& row) { return row.name == name; });
  if (found == table_.end()) {
    std::vector<std::string> known;
    for (const OptionRow& row : table_) known.push_back(row.name);
    const std::string_view meant = nearest(name, known);
    throw Failure(ExitCode::usage, fmt::format("unknown option {}{}", name, from),
                  meant.empty() ? "see --help" : fmt::format("did you mean {}?", meant));
  }
  if (const std::string allowed = problem(*found, value); !allowed.empty()) {
    throw Failure(ExitCode::usage, fmt::format("{} cannot be \"{}\"{}", name, value, from),
                  fmt::format("give {}", allowed));
  }
  Value& into = values_[found->name];
  if (!into.texts.empty() && into.origin > origin) return;
  if (found->kind != OptionKind::list || into.origin != origin) into.texts.clear();
  into.texts.emplace_back(value);
  into.origin = origin;
  into.where = where;
}

void Config::read_file(const std::filesystem::path& file, Origin origin) {
  toml::table values;
  try {
    values = toml::parse_file(file.string());
  } catch (const toml::parse_error& e) {
    std::ostringstream where;
    where << e.source().begin;
    throw Failure(ExitCode::usage, fmt::format("cannot read {}: {} ({})", file.string(), e.description(), where.str()),
                  "correct the file, or leave it out");
  }
  const auto set_one = [&](const std::string& option, const toml::node& node) {
    const auto text = as_text(node);
    if (!text) {
      throw Failure(ExitCode::usage,
                    fmt::format("{} in {} is neither text, number, list nor truth value", option, file.string()),
                    "see --help for what the option takes");
    }
    set(option, *text, origin, file.string());
  };
  for (const auto& [key, node] : values) {
    const std::string option = with_hyphens(key.str());
    if (const auto* array = node.as_array()) {
      for (const auto& item : *array) set_one(option, item);
    } else {
      set_one(option, node);
    }
  }
}

void Config::read_environment(const std::function<const char*(const char*)>& variable) {
  for (const OptionRow& row : table_) {
    const std::string name = variable_of(row.name);
    if (const char* value = variable(name.c_str())) set(row.name, value, Origin::environment, name);
  }
}

const Config::Value* Config::find(std::string_view name) const {
  (void)row(name);  // asking for an option that does not exist is our bug
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Config::text(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? "" : value->texts.front();
}

std::int64_t Config::number(std::string_view name) const {
  const Value* value = find(name);
  assert(value != nullptr && row(name).kind == OptionKind::number);
  return parse<std::int64_t>(value->texts.front()).value();
}

double Config::real(std::string_view name) const {
  const Value* value = find(name);
  assert(value != nullptr && row(name).kind == OptionKind::real);
  return parse<double>(value->texts.front()).value();
}

bool Config::toggle(std::string_view name) const {
  const Value* value = find(name);
  assert(row(name).kind == OptionKind::toggle);
  return value != nullptr && parse_toggle(value->texts.front()).value();
}

std::vector<std::string> Config::list(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? std::vector<std::string>() : value->texts;
}

bool Config::has(std::string_view name) const {
  return find(name) != nullptr;
}

Origin Config::origin(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? Origin::built_in : value->origin;
}

std::string Config::describe() const {
  std::string out;
  for (const OptionRow& row : table_) {
    const Value* value = find(row.name);
    std::vector<std::string> texts;
    if (value != nullptr)
      for (const std::string& text : value->texts) texts.push_back(shown(row, text));
    const std::string_view origin = value == nullptr ? "not set" : name(value->origin);
    const std::string where = value == nullptr || value->where.empty() ? "" : fmt::format(", {}", value->where);
    out += fmt::format("{:<22} {:<32} ({}{})\n", row.name, fmt::to_string(fmt::join(texts, " ")), origin, where);
  }
  return out;
}

}  // namespace collab::node
