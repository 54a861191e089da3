#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completions.h"

namespace mkc {
namespace {

// Returns assignments that say what the script offers: words and a kind of paths.
std::string offer(const ValueKind& values) {
  const char* paths = values.files ? "file" : values.folders ? "directory" : "";
  return fmt::format("words='{}' paths={}", fmt::join(values.names, " "), paths);
}

std::string command_flags_of(const CommandEntry& command) {
  std::vector<std::string> flags;
  for (const OptionEntry& option : command.options)
    flags.insert(flags.end(), option.flags.begin(), option.flags.end());
  return fmt::format("{}", fmt::join(flags, " "));
}

// Returns what a word without a flag before it may be.
ValueKind plain_words(const CommandEntry& command) {
  ValueKind all;
  for (const OptionEntry& positional : command.positionals) {
    all.names.insert(all.names.end(), positional.values.names.begin(), positional.values.names.end());
    all.files |= positional.values.files;
    all.folders |= positional.values.folders;
  }
  return all;
}

std::string command_case(const std::string& name, const CommandEntry& command, const ValueKind& plain) {
  return fmt::format("    '{}') flags='{}' {} ;;\n", name, command_flags_of(command), offer(plain));
}

// Returns the cases of the options that take a value. Options with equal offers share a case.
std::string option_cases(const std::string& name, const CommandEntry& command) {
  std::map<std::string, std::vector<std::string>> keys;
  for (const OptionEntry& option : command.options)
    if (!option.type.empty())
      for (const std::string& flag : option.flags)
        keys[offer(option.values)].push_back(fmt::format("'{} {}'", name, flag));
  std::string text;
  for (const auto& [values, flags] : keys)
    text += fmt::format("    {}) {} ;;\n", fmt::join(flags, "|"), values);
  return text;
}

constexpr const char* kBegin = R"(# Completion of {0} for bash.
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command='' flags='' words='' paths='' list='' at found
  if [[ $current == = ]]; then
    current=''
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
)";
constexpr const char* kFindCommand = R"(  for ((at = 1; at < COMP_CWORD; ++at)); do
    [[ ${COMP_WORDS[at]} == -* ]] || { command=${COMP_WORDS[at]}; break; }
  done
)";
constexpr const char* kEnd = R"(    *) [[ $current != -* ]] || {{ words=$flags; paths=''; }} ;;
  esac
  [[ $current != *,* || -z $words ]] || list=${{current%,*}},
  mapfile -t found < <(compgen -W "$words" -- "${{current#"$list"}}")
  COMPREPLY=("${{found[@]/#/$list}}")
  [[ -n $paths ]] || return 0
  compopt -o filenames 2>/dev/null
  mapfile -t found < <(compgen -A "$paths" -- "$current")
  COMPREPLY+=("${{found[@]}}")
}}
complete -F _{0} {0}
)";

}  // namespace

std::string bash_completion(const OptionTable& table) {
  const CommandEntry& program = table.program;
  ValueKind first = plain_words(program);
  for (const CommandEntry& command : table.commands) first.names.push_back(command.name);
  std::string text = fmt::format(kBegin, program.name);
  if (!table.commands.empty()) text += kFindCommand;
  text += "  case $command in\n" + command_case("", program, first);
  for (const CommandEntry& command : table.commands)
    text += command_case(command.name, command, plain_words(command));
  text += "  esac\n  case \"$command $before\" in\n" + option_cases("", program);
  for (const CommandEntry& command : table.commands) text += option_cases(command.name, command);
  return text + fmt::format(kEnd, program.name);
}

}  // namespace mkc
