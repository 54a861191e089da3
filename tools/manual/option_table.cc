#include "tools/manual/option_table.h"

#include <algorithm>
#include <set>

namespace mkc {
namespace {

std::vector<std::string> option_flags(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_snames()) flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

// Returns all flags of the options, sorted, because CLI11 orders the options by their addresses.
std::vector<std::string> all_flags(const std::set<CLI::Option*>& options) {
  std::vector<std::string> all;
  for (const CLI::Option* option : options)
    for (const std::string& flag : option_flags(*option)) all.push_back(flag);
  std::sort(all.begin(), all.end());
  return all;
}

// Splits CLI11's type name at its first colon: "TEXT:{a,b}" is a type and the words of its validators.
void set_type(OptionEntry& entry, const std::string& type_name, const ValueKinds& kinds) {
  const size_t colon = std::min(type_name.find(':'), type_name.size());
  entry.type = type_name.substr(0, colon);
  if (const auto kind = kinds.find(entry.type); kind != kinds.end()) entry.values = kind->second;
  if (colon == type_name.size()) return;
  const std::string words = type_name.substr(colon + 1);
  if (words.starts_with('{') && words.ends_with('}'))
    entry.values.names = CLI::detail::split(words.substr(1, words.size() - 2), ',');
  else
    entry.bounds = words;
}

OptionEntry entry_of(const CLI::Option& option, const ValueKinds& kinds) {
  OptionEntry entry;
  entry.flags = option_flags(option);
  if (option.get_items_expected_max() > 0) set_type(entry, option.get_type_name(), kinds);
  if (entry.flags.empty()) entry.type = option.get_name(true);
  entry.description = option.get_description();
  entry.default_value = option.get_default_str();
  entry.required = option.get_required();
  entry.repeats = option.get_items_expected_max() > 1;
  entry.needs = all_flags(option.get_needs());
  entry.excludes = all_flags(option.get_excludes());
  return entry;
}

CommandEntry command_of(const CLI::App& app, const ValueKinds& kinds) {
  CommandEntry command{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionEntry entry = entry_of(*option, kinds);
    (entry.flags.empty() ? command.positionals : command.options).push_back(std::move(entry));
  }
  return command;
}

}  // namespace

OptionTable table_of(const CLI::App& app, const ValueKinds& kinds) {
  ValueKinds all{{"FILE", {.names = {}, .files = true}},
                 {"PATH", {.names = {}, .files = true}},
                 {"DIR", {.names = {}, .folders = true}}};
  all.insert(kinds.begin(), kinds.end());
  OptionTable table{command_of(app, all), app.get_footer(), {}};
  for (const CLI::App* command : app.get_subcommands({})) table.commands.push_back(command_of(*command, all));
  return table;
}

}  // namespace mkc
