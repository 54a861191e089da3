#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completions.h"

namespace mkc {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

// Returns the arguments of `complete` that offer values.
std::string fish_offer(const ValueKind& values) {
  const std::string names = fmt::format("{}", fmt::join(values.names, " "));
  if (values.list) return fmt::format(" -x -a '(__fish_complete_list , \"printf %s\\\\n {}\")'", names);
  std::string text = values.files ? " -r -F" : " -x";
  if (values.folders) text += " -a '(__fish_complete_directories)'";
  return names.empty() ? text : text + fmt::format(" -a '{}'", names);
}

std::string option_line(const std::string& begin, const OptionEntry& option) {
  std::string text = begin;
  for (const std::string& flag : option.flags)
    text += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  if (!option.type.empty()) text += fish_offer(option.values);
  return text + " -d " + quoted(option.description) + "\n";
}

std::string positional_line(const std::string& begin, const OptionEntry& positional) {
  std::string text = begin + (positional.values.files ? " -F" : "");
  if (!positional.values.names.empty())
    text += fmt::format(" -a '{}'", fmt::join(positional.values.names, " "));
  return text + "\n";
}

std::string lines_of(const std::string& begin, const CommandEntry& command) {
  std::string text;
  for (const OptionEntry& option : command.options) text += option_line(begin, option);
  for (const OptionEntry& positional : command.positionals) text += positional_line(begin, positional);
  return text;
}

// Tells whether the command line's command is the one given, or "" for none yet.
constexpr const char* kIsCommand = R"(function __{0}_is
    for word in (commandline -opc)[2..]
        if not string match -q -- '-*' $word
            test "$word" = "$argv[1]"
            return
        end
    end
    test -z "$argv[1]"
end
)";

}  // namespace

std::string fish_completion(const OptionTable& table) {
  const std::string& name = table.program.name;
  const std::string any = "complete -c " + name;
  std::string text = fmt::format("# Completion of {} for fish.\n{} -f\n", name, any);
  if (table.commands.empty()) return text + lines_of(any, table.program);
  text += fmt::format(kIsCommand, name);
  const auto begin = [&](const std::string& command) {
    return fmt::format("{} -n '__{}_is \"{}\"'", any, name, command);
  };
  text += lines_of(begin(""), table.program);
  for (const CommandEntry& command : table.commands)
    text += fmt::format("{} -a {} -d {}\n", begin(""), command.name, quoted(command.description));
  for (const CommandEntry& command : table.commands) text += lines_of(begin(command.name), command);
  return text;
}

}  // namespace mkc
