// mkc has these subcommands. Each add_…() adds a command and its options to the command line. The command
// that the user gives sets `action`, which does the work and returns its error.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "ir/diag.h"
#include "tools/passes.h"

namespace mkc {

using Action = std::function<Status()>;

void add_compile(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_quantize(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_simulate(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);

// Adds completions and man, which print what cmake --install installs.
void add_completions(CLI::App& app, Action& action);
void add_man(CLI::App& app, Action& action);

// Adds MODEL and the options of its compilation, which several commands share.
void add_model_options(CLI::App& command, ModelRequest& request);

// Adds --without, the target features that the code does not use.
void add_without_option(CLI::App& command, std::vector<std::string>& without);

// Adds --mode, for commands that make code.
CLI::Option* add_mode_option(CLI::App& command, Mode& mode);

// Runs the command line. Returns the exit code, 0 or 1. Errors are printed and give 1. A bug of mkc ends the
// process with 70.
int run_command(int argc, char** argv);

// Runs the command line as main() does: an exception gives 1 without memory or thread, and 70 otherwise.
int run_main(int argc, char** argv);

}  // namespace mkc
