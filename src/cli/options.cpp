#include "cli/options.hpp"

#include "base/text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace collab::cli {
namespace {

using node::OptionKind;
using node::OptionRow;

/// Where CLI11 leaves what it found for one row.
struct Found {
  std::vector<std::string> values;
  bool toggled = false;
};

std::vector<std::string> topics(const node::OptionTable& table) {
  std::vector<std::string> out;
  for (const OptionRow& row : table) {
    if (std::find(out.begin(), out.end(), row.topic) == out.end()) out.push_back(row.topic);
  }
  return out;
}

constexpr const char* kAnyOption =
    "  --config FILE            options as TOML; also COLLAB_<OPTION> in the environment, --set OPTION=VALUE\n";

std::string topic_help(const node::OptionTable& table, const std::string& topic) {
  std::string out = topic + "\n";
  for (const OptionRow& row : table) {
    if (row.topic != topic) continue;
    const std::string flag = row.value.empty() ? "--" + row.name : fmt::format("--{} {}", row.name, row.value);
    const std::string built_in =
        row.built_in.empty() || row.kind == OptionKind::toggle ? "" : fmt::format(" [{}]", row.built_in);
    out += fmt::format("  {:<24} {}{}\n", flag, row.help, built_in);
  }
  return out;
}

/// What the user meant by a word that is no option of ours.
[[noreturn]] void refuse(const CLI::ParseError& error, const node::OptionTable& table,
                         const std::vector<std::string>& arguments) {
  std::vector<std::string> known = {"--config", "--set", "--help", "--version"};
  for (const OptionRow& row : table) known.push_back("--" + row.name);
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.size() < 3 || flag.rfind("--", 0) != 0) continue;
    const bool negated =
        flag.rfind("--no-", 0) == 0 && std::find(known.begin(), known.end(), "--" + flag.substr(5)) != known.end();
    if (negated || std::find(known.begin(), known.end(), flag) != known.end()) continue;
    const std::string_view meant = nearest(flag, known);
    throw Failure(ExitCode::usage, fmt::format("unknown option {}", flag),
                  meant.empty() ? "see --help" : fmt::format("did you mean {}?", meant));
  }
  throw Failure(ExitCode::usage, error.what(), "see --help");
}

}  // namespace

Parsed parse(const Synopsis& synopsis, node::Config& config, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  Parsed parsed;
  std::vector<std::string> words;
  std::string config_file;
  std::vector<std::string> settings;
  app.add_flag("-h,--help", parsed.help);
  app.add_flag("--version", parsed.version);
  app.add_option("--config", config_file);
  app.add_option("--set", settings)->expected(1)->take_all();
  app.add_option("words", words);
  std::map<std::string, std::unique_ptr<Found>> found;
  for (const OptionRow& row : config.table()) {
    auto& into = *found.emplace(row.name, std::make_unique<Found>()).first->second;
    if (row.kind == OptionKind::toggle) {
      app.add_flag(fmt::format("--{0},!--no-{0}", row.name), into.toggled);
    } else {
      auto* option = app.add_option("--" + row.name, into.values);
      option->expected(row.kind == OptionKind::list ? -1 : 1)->take_all();
      if (!row.alone.empty()) option->expected(0, 1)->default_str(row.alone);
    }
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    refuse(error, config.table(), arguments);
  }

  if (!config_file.empty()) config.read_file(config_file, node::Origin::config_file);
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw Failure(ExitCode::usage, fmt::format("--set {} has no value", setting), "--set NAME=VALUE");
    config.set(setting.substr(0, equals), setting.substr(equals + 1), node::Origin::flag, "--set");
  }
  for (const OptionRow& row : config.table()) {
    const Found& into = *found.at(row.name);
    if (app.count("--" + row.name) == 0) continue;
    if (row.kind == OptionKind::toggle) {
      config.set(row.name, into.toggled ? "on" : "off", node::Origin::flag, "--" + row.name);
    } else {
      for (const std::string& value : into.values) config.set(row.name, value, node::Origin::flag, "--" + row.name);
    }
  }

  std::vector<std::string> commands;
  for (const Command& command : synopsis.commands) commands.push_back(command.name);
  if (!commands.empty()) parsed.command = commands.front();
  const auto said = words.empty() ? commands.end() : std::find(commands.begin(), commands.end(), words.front());
  if (said != commands.end()) {
    parsed.command = *said;
    words.erase(words.begin());
    const std::size_t words_max = synopsis.commands[static_cast<std::size_t>(said - commands.begin())].words_max;
    while (!words.empty() && parsed.words.size() < words_max) {
      parsed.words.push_back(words.front());
      words.erase(words.begin());
    }
  }
  if (!words.empty() && !synopsis.argument.empty()) {
    parsed.argument = words.front();
    words.erase(words.begin());
  }
  if (!words.empty()) {
    const std::string_view meant = nearest(words.front(), commands);
    throw Failure(ExitCode::usage, fmt::format("{} does not know \"{}\"", synopsis.program, words.front()),
                  meant.empty() ? fmt::format("commands are: {}", fmt::join(commands, ", "))
                                : fmt::format("did you mean {}?", meant));
  }
  return parsed;
}

std::string help(const Synopsis& synopsis, const node::OptionTable& table, std::string_view command) {
  for (const Command& one : synopsis.commands) {
    if (one.name != command || one.topic.empty()) continue;
    return fmt::format("{0} {1} {2}\n\n{3}{4}  all else: {0} --help\n", synopsis.program, one.name, one.help,
                       topic_help(table, one.topic), kAnyOption);
  }
  std::string out = fmt::format("{}: {}\n", synopsis.program, synopsis.sentence);
  std::size_t width = 10;
  for (const Command& one : synopsis.commands) width = std::max(width, one.name.size());
  std::set<std::string> apart;
  for (const Command& one : synopsis.commands) {
    const bool first = &one == &synopsis.commands.front();
    const char* more = first ? " (default)" : one.topic.empty() ? "" : "; see --help";
    out += fmt::format("  {:<{}} {}{}\n", one.name, width, one.help, more);
    apart.insert(one.topic);
  }
  for (const std::string& example : synopsis.examples) out += fmt::format("  $ {}\n", example);
  for (const std::string& topic : topics(table))
    if (!apart.contains(topic)) out += topic_help(table, topic);
  return fmt::format("{}{}  {}\n", out, kAnyOption, synopsis.read_on);
}

}  // namespace collab::cli
