// The options of a program are plain values, for its manual and the completions of shells. The command line
// that CLI11 parses is the one source of the table.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace mkc {

// ValueKind says what completions offer for a value.
struct ValueKind {
  std::vector<std::string> names;
  bool files = false;
  bool folders = false;
  bool list = false;  // names with commas between
};
// ValueKinds holds the kind of each type name. "MACHINE" is the type name of "--machine MACHINE".
using ValueKinds = std::map<std::string, ValueKind>;

// OptionEntry is an option, or a positional argument, which has no flags.
struct OptionEntry {
  std::vector<std::string> flags;  // "-o", "--trace"
  std::string type;                // type name, or the positional's name; "": takes no value
  std::string bounds;              // CLI11's words for bounds: "INT in [1 - 64]"
  std::string description;
  std::string default_value;
  ValueKind values;
  bool required = false;
  bool repeats = false;
  std::vector<std::string> needs, excludes;  // flags of other options
};

struct CommandEntry {
  std::string name;
  std::string description;
  std::vector<OptionEntry> options, positionals;
};

struct OptionTable {
  CommandEntry program;
  std::string footer;
  std::vector<CommandEntry> commands;
};

// Returns the table of a program. Hidden options, whose group is "", are left out. `kinds` adds to FILE, PATH
// and DIR.
OptionTable table_of(const CLI::App& app, const ValueKinds& kinds);

}  // namespace mkc
