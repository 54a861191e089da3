#include "codegen/targets.h"
#include "scheduler/machine/machine.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/manual/completions.h"
#include "tools/manual/man_page.h"
#include "tools/native.h"
#include "tools/output.h"

namespace mkc {
namespace {

ValueKind kind_of_machine() {
  ValueKind kind{.names = machine_names(), .files = true};
  kind.names.emplace_back(kNative);
  return kind;
}

ValueKind kind_of_target() {
  ValueKind kind;
  for (const Target& target : targets()) kind.names.push_back(target.name);
  for (const char* name : {kNative, kThisProcessor, kEmulator}) kind.names.emplace_back(name);
  return kind;
}

ValueKind features() {
  ValueKind kind{.names = {}, .list = true};
  for (const std::string_view feature : features_to_go_without()) kind.names.emplace_back(feature);
  return kind;
}

ValueKind pass_names() {
  ValueKind kind;
  for (const Pass& pass : passes()) kind.names.emplace_back(pass.name);
  kind.names.emplace_back("all");
  return kind;
}

// Returns the table of all commands, with the names that each type of value has.
OptionTable full_table(const CLI::App& app) {
  return table_of(app, {{"MACHINE", kind_of_machine()},
                        {"FEATURES", features()},
                        {"PASS", pass_names()},
                        {"TARGET", kind_of_target()}});
}

}  // namespace

void add_completions(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completions", "print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "shell that reads the script")
      ->required()
      ->check(one_of(shell_names()));
  command->callback([&app, shell, &action] {
    action = [&app, shell] {
      put_stdout(completion_for(*shell, full_table(app)));
      return Status();
    };
  });
}

void add_man(CLI::App& app, Action& action) {
  app.add_subcommand("man", "print the manual page, for man -l")->callback([&app, &action] {
    action = [&app] {
      put_stdout(man_page(full_table(app), std::string("mkc ") + version(), "mkrun(1)"));
      return Status();
    };
  });
}

}  // namespace mkc
