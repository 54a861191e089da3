#include "tools/manual/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace mkc {
namespace {

// Returns text that roff prints as it stands.
std::string roff_escaped(std::string_view text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return out;
}

// Returns escaped text with a period at its end. The first word stays as it is, for it may be a name.
std::string sentence(const std::string& text) {
  return roff_escaped(text) + (text.empty() || text.ends_with('.') || text.ends_with("…") ? "" : ".");
}

// Returns the description without the program's name before it, for the line of NAME.
std::string short_description(const CommandEntry& program) {
  std::string text = program.description;
  if (text.starts_with(program.name + " ")) text.erase(0, program.name.size() + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string synopsis(const std::string& name, const CommandEntry& command) {
  std::string text = fmt::format(".B {}\n[\\fIOPTIONS\\fR]", roff_escaped(name));
  for (const OptionEntry& positional : command.positionals)
    text += fmt::format(" \\fI{}\\fR", roff_escaped(positional.type));
  return text + "\n";
}

std::string heading(const OptionEntry& option) {
  if (option.flags.empty()) return fmt::format("\\fI{}\\fR", roff_escaped(option.type));
  std::string text;
  for (const std::string& flag : option.flags)
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", roff_escaped(flag));
  if (!option.type.empty()) text += fmt::format(" \\fI{}\\fR", roff_escaped(option.type));
  return text + (option.repeats ? " ..." : "");
}

// Returns what the table says of an option beyond its description.
std::string rules(const OptionEntry& option) {
  std::string text;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}: {}.\n", what, roff_escaped(value));
  };
  add("Values", fmt::format("{}", fmt::join(option.values.names, ", ")));
  add("Bounds", option.bounds);
  add("Default", option.default_value);
  add("Needs", fmt::format("{}", fmt::join(option.needs, ", ")));
  add("Excludes", fmt::format("{}", fmt::join(option.excludes, ", ")));
  return text;
}

std::string item(const OptionEntry& option) {
  const std::string description = sentence(option.description);
  return fmt::format(".TP\n{}\n{}{}", heading(option), description.empty() ? "" : description + "\n",
                     rules(option));
}

std::string items(const CommandEntry& command) {
  std::string text;
  for (const OptionEntry& positional : command.positionals) text += item(positional);
  for (const OptionEntry& option : command.options) text += item(option);
  return text;
}

std::string section(const std::string& program, const CommandEntry& command) {
  const std::string name = program + " " + command.name;
  return fmt::format(".SS {}\n{}.PP\n{}\n{}", roff_escaped(name), synopsis(name, command),
                     sentence(command.description), items(command));
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string usage(const OptionTable& table) {
  std::string text = ".SH SYNOPSIS\n" + synopsis(table.program.name, table.program);
  if (!table.commands.empty()) text += fmt::format(".br\n.B {}\n\\fICOMMAND\\fR ...\n", table.program.name);
  return text;
}

}  // namespace

std::string man_page(const OptionTable& table, const std::string& version, const std::string& see_also) {
  const CommandEntry& program = table.program;
  std::string text = fmt::format("'\\\" -*- coding: utf-8 -*-\n.TH {} 1 \"\" \"{}\" \"User Commands\"\n",
                                 upper(program.name), roff_escaped(version));
  text += fmt::format(".SH NAME\n{} \\- {}\n", program.name, roff_escaped(short_description(program)));
  text += usage(table);
  text += fmt::format(".SH DESCRIPTION\n{}\n", sentence(program.description));
  text += fmt::format(".SH OPTIONS\n{}", items(program));
  if (!table.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandEntry& command : table.commands) text += section(program.name, command);
  if (!table.footer.empty()) text += fmt::format(".SH \"EXIT STATUS\"\n{}\n", sentence(table.footer));
  const size_t number = see_also.find('(');
  return text +
         fmt::format(".SH \"SEE ALSO\"\n.BR {} {}\n", see_also.substr(0, number), see_also.substr(number));
}

}  // namespace mkc
