#include "cli/options.hpp"

#include "base/text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

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

std::string help(const Synopsis& synopsis, const node::OptionTable& table) {
  std::string out = fmt::format("{}: {}\n\n", synopsis.program, synopsis.sentence);
  if (!synopsis.commands.empty()) {
    std::size_t width = 10;
    for (const Command& command : synopsis.commands) width = std::max(width, command.name.size());
    for (const Command& command : synopsis.commands) {
      const bool first = &command == &synopsis.commands.front();
      out += fmt::format("  {:<{}} {}{}\n", command.name, width, command.help, first ? " (default)" : "");
    }
  }
  for (const std::string& example : synopsis.examples) out += fmt::format("  $ {}\n", example);
  for (const std::string& topic : topics(table)) {
    out += fmt::format("\n{}\n", topic);
    for (const OptionRow& row : table) {
      if (row.topic != topic) continue;
      const std::string flag = row.value.empty() ? "--" + row.name : fmt::format("--{} {}", row.name, row.value);
      const std::string built_in =
          row.built_in.empty() || row.kind == OptionKind::toggle ? "" : fmt::format(" [{}]", row.built_in);
      out += fmt::format("  {:<24} {}{}\n", flag, row.help, built_in);
    }
  }
  out += "  --config FILE            options as TOML; also COLLAB_<OPTION> in the environment\n";
  out += "  --set NAME=VALUE         any option of this table by its name\n";
  out += fmt::format("  {}\n", synopsis.read_on);
  return out;
}

}  // namespace collab::cli
