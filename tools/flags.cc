#include "tools/flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "tools/parse_arguments.h"

namespace mkc {
namespace {

std::string suggested(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

[[noreturn]] void refuse(const std::string& message) {
  throw CLI::ParseError(message, CLI::ExitCodes::ExtrasError);
}

// Returns the flag of an argument: "--flag" for "--flag=value", "-o" for "-ofile", "" for an argument without
// a flag.
std::string flag_of(std::string_view argument) {
  if (argument.starts_with("--") && argument.size() > 2)
    return std::string(argument.substr(0, argument.find('=')));
  const bool is_short =
      argument.size() > 1 && argument[0] == '-' &&
      ((argument[1] >= 'a' && argument[1] <= 'z') || (argument[1] >= 'A' && argument[1] <= 'Z'));
  return is_short ? std::string(argument.substr(0, 2)) : "";
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

bool takes_empty_text(const CLI::Option& option) {
  return option.get_type_name() == "TEXT";
}

[[noreturn]] void refuse_empty(const CLI::Option& option, const std::string& name) {
  const std::string expected = option.get_type_name();
  refuse(fmt::format("{}: found an empty value, expected {}", name, expected.empty() ? "none" : expected));
}

void check_flags(const CLI::App& command, const std::string& of, std::span<char*> arguments) {
  const std::vector<std::string> known = flags_of(command);
  for (const char* argument : arguments) {
    if (std::string_view(argument) == "--") return;
    const std::string flag = flag_of(argument);
    if (!flag.empty() && std::find(known.begin(), known.end(), flag) == known.end())
      refuse(fmt::format("unknown flag {} of {}{}", flag, of, suggested(flag, known)));
    if (!has_empty_value(argument)) continue;
    const CLI::Option* option = command.get_option_no_throw(flag);
    if (option && !takes_empty_text(*option)) refuse_empty(*option, flag);
  }
}

// Returns "a, b or c".
std::string alternatives(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto fault = [names](const std::string& found) {
    const bool known = std::find(names.begin(), names.end(), found) != names.end();
    return known ? std::string() : fmt::format("found {}, expected {}", found, alternatives(names));
  };
  return {fault, fmt::format("{{{}}}", fmt::join(names, ","))};
}

void check_names(const CLI::App& app, int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const auto named = std::find_if(arguments.begin() + std::min(argc, 1), arguments.end(),
                                  [](const char* a) { return *a != '-'; });
  const auto at = static_cast<size_t>(named - arguments.begin());
  check_flags(app, "mkc", arguments.subspan(1, at - 1));
  if (named == arguments.end()) {
    if (argc < 2) refuse(fmt::format("no command, expected one of {}", fmt::join(commands, ", ")));
    return;
  }
  if (std::find(commands.begin(), commands.end(), *named) == commands.end())
    refuse(fmt::format("unknown command {}{}; known are {}", *named, suggested(*named, commands),
                       fmt::join(commands, ", ")));
  check_flags(*app.get_subcommand(*named), fmt::format("mkc {}", *named), arguments.subspan(at + 1));
}

void check_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (!takes_empty_text(*option) && std::find(values.begin(), values.end(), "") != values.end())
      refuse_empty(*option, option->get_name());
  }
}

}  // namespace mkc
