#pragma once
// The command line of a program, from its option table.

#include "node/config.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace collab::cli {

struct Command {
  std::string name;           ///< "status"; the first of a program is the default
  std::string help;           ///< one line
  std::size_t words_max = 0;  ///< that may follow it
  std::string topic = {};     ///< of options that only it reads: they are in its own help. Empty: none
};

/// What `--help` says besides the options.
struct Synopsis {
  std::string program;                ///< "collab-peer"
  std::string sentence;               ///< what it is for
  std::vector<Command> commands;      ///< empty: none
  std::vector<std::string> examples;  ///< two or three, each a whole command line
  std::string read_on;                ///< where to read on
  std::string argument;               ///< placeholder of one optional argument, "LINK"; empty: none
};

struct Parsed {
  std::string command;             ///< the default when none was given
  std::string argument;            ///< empty: none
  std::vector<std::string> words;  ///< that followed the command
  bool help = false;
  bool version = false;
};

/// Puts the flags into `config` (origin `flag`) and says which command was meant. Adds `--config FILE`, which is read
/// at once with origin `config_file`. Throws `Failure(usage)`.
Parsed parse(const Synopsis& synopsis, node::Config& config, const std::vector<std::string>& arguments);

/// At most 60 lines of 100 columns: one sentence, commands, examples, options by topic with defaults. Of a command with
/// a topic of its own: that.
std::string help(const Synopsis& synopsis, const node::OptionTable& table, std::string_view command = {});

}  // namespace collab::cli
