// The subcommands of mkc. Each adds its options to the command line; the one that was given sets `action`,
// which does the work and returns its error.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "ir/diag.h"
#include "tools/passes.h"

namespace mkc {

using Action = std::function<Status()>;

void add_compile(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_simulate(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);

// The options that choose and shape a model, shared by commands.
void add_model_options(CLI::App& command, ModelRequest& request);

// --without: parts of the GPU that are not used.
void add_without_option(CLI::App& command, std::vector<std::string>& parts);

// Of the commands that make code.
CLI::Option* add_mode_option(CLI::App& command, Mode& mode);

// The whole command line. Returns the exit code: 0, 1 for errors, which are printed; bugs end the process
// with 70.
int run_command(int argc, char** argv);

}  // namespace mkc
