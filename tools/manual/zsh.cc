#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completions.h"

namespace mkc {
namespace {

// Returns text for the inside of single quotes, with a backslash before each of the signs.
std::string zsh_escaped(const std::string& text, const std::string& signs) {
  std::string out;
  for (const char c : text) {
    if (signs.find(c) != signs.npos) out += '\\';
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out;
}

// Returns the action of _arguments that completes a value.
std::string action(const ValueKind& values, const std::string& type) {
  const std::string names = fmt::format("{}", fmt::join(values.names, " "));
  if (values.list) return fmt::format("_values -s , {} {}", type, names);
  if (!names.empty()) return values.files ? " _names_or_files " + names : "(" + names + ")";
  return values.files ? "_files" : values.folders ? "_files -/" : " ";
}

// Returns the spec of one flag of an option. The flags in parentheses are not offered beside it.
std::string spec(const OptionEntry& option, const std::string& flag) {
  std::vector<std::string> others = option.excludes;
  if (!option.repeats) others.insert(others.end(), option.flags.begin(), option.flags.end());
  std::string text = others.empty() ? "" : fmt::format("({})", fmt::join(others, " "));
  text += (option.repeats ? "*" : "") + flag;
  if (!option.type.empty()) text += flag.starts_with("--") ? "=" : "+";
  text += fmt::format("[{}]", zsh_escaped(option.description, "[]\\:"));
  if (!option.type.empty()) text += fmt::format(":{}:{}", option.type, action(option.values, option.type));
  return "'" + text + "'";
}

std::string arguments(const CommandEntry& command, const std::string& indent) {
  std::string text = indent + "_arguments -s";
  for (const OptionEntry& option : command.options)
    for (const std::string& flag : option.flags) text += " \\\n" + indent + "  " + spec(option, flag);
  for (const OptionEntry& positional : command.positionals)
    text +=
        fmt::format(" \\\n{}  ':{}:{}'", indent, positional.type, action(positional.values, positional.type));
  return text;
}

std::string commands(const OptionTable& table) {
  std::string text = "  local -a commands=(\n";
  for (const CommandEntry& command : table.commands)
    text += fmt::format("    '{}:{}'\n", command.name, zsh_escaped(command.description, ":\\"));
  text +=
      "  )\n" + arguments(table.program, "  ") + " \\\n    '1:command:->command' '*::argument:->argument'\n";
  text +=
      "  case $state in\n    command) _describe command commands ;;\n    argument)\n      case $words[1] "
      "in\n";
  for (const CommandEntry& command : table.commands)
    text += fmt::format("        {})\n{} ;;\n", command.name, arguments(command, "          "));
  return text + "      esac ;;\n  esac\n";
}

constexpr const char* kZshBegin = R"zsh(#compdef {0}
# Completion of {0} for zsh.
_{0}() {{
  local curcontext=$curcontext state state_descr line
  typeset -A opt_args
  _names_or_files() {{ _alternative "names:name:($*)" 'files:file:_files'; }}
)zsh";

}  // namespace

std::string zsh_completion(const OptionTable& table) {
  const std::string& name = table.program.name;
  const std::string body = table.commands.empty() ? arguments(table.program, "  ") + "\n" : commands(table);
  return fmt::format(kZshBegin, name) + body +
         fmt::format(
             "}}\nif [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n", name);
}

}  // namespace mkc
