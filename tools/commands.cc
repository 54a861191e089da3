#include "tools/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "runtime/file.h"
#include "tools/artefact.h"

namespace mkc {
namespace {

// An error that does not name a file says which program it is from.
void print_error(const std::string& message) {
  const bool placed = message.find("error: ") != std::string::npos;
  fmt::print(stderr, "{}{}\n", placed ? "" : "mkc: error: ", message);
}

// The exit code of a command that succeeded, if what it printed arrived.
int finish_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  print_error("cannot write to standard output");
  return 1;
}

// -O3 and --trials.
void add_search_options(CLI::App& command, std::optional<SearchBudget>& search) {
  CLI::Option* level = command.add_option_function<std::string>(
      "-O",
      [&search](const std::string& text) {
        search = SearchBudget{};
        if (text == "3") return;
        if (!text.starts_with("3=") || !CLI::detail::lexical_cast(text.substr(2), search->seconds) ||
            !(search->seconds > 0))
          throw CLI::ValidationError("-O", "found " + text + ", expected 3 or 3=SECONDS");
      },
      "3 or 3=SECONDS: search for placements, products to split, wide_from and ring that simulated steps are "
      "shorter "
      "with, 10 seconds at most");
  command
      .add_option_function<uint32_t>(
          "--trials",
          [&search](uint32_t trials) {
            if (search) search->trials = trials;
          },
          "end the search of -O3 after as many")
      ->needs(level);
}

}  // namespace

void add_model_options(CLI::App& command, ModelRequest& request) {
  ModelOptions& o = request.options;
  command
      .add_option("MODEL", request.model, "checkpoint directory (config.json, *.safetensors) or model.yaml")
      ->required();
  command.add_option("--workers", o.workers, "workers (CTAs) of the kernel; default: the machine's");
  command.add_option("--max-tokens", o.max_tokens, "tokens of one step at most; default 64");
  command.add_option("--max-requests", o.max_requests, "requests of one step at most; default 16");
  // Not bound to the optional: CLI11 would set it to false where neither flag is given.
  command.add_flag_function(
      "--batch-invariant,!--no-batch-invariant", [&o](int64_t count) { o.batch_invariant = count > 0; },
      "a token's bits never depend on how many others are in its step");
  command.add_option("--context", o.context, "positions of the cache; default min(the model's, 4096)");
  command.add_option_function<std::string>(
      "--kv-dtype",
      [&o](const std::string& name) {
        const Result<DType> dtype = parse_dtype(name);
        if (!dtype.ok() || dtype.value() == DType::i32)
          throw CLI::ValidationError("--kv-dtype", "found " + name + ", expected bf16, f16, f32 or e4m3");
        o.kv_dtype = dtype.value();
      },
      "bf16, f16, f32 or e4m3; default: the weights'");
  command.add_option_function<std::string>(
      "--scheduler",
      [&o](const std::string& name) {
        const auto chosen = std::find_if(kSchedulers.begin(), kSchedulers.end(),
                                         [&](Scheduler s) { return scheduler_name(s) == name; });
        if (chosen == kSchedulers.end())
          throw CLI::ValidationError("--scheduler", "found " + name + ", expected static, dynamic or auto");
        o.scheduler = *chosen;
      },
      "static: no tickets; dynamic: workers draw tasks wherever possible; auto: by cost; default auto");
  add_search_options(command, request.search);
  command.add_option("--machine", request.machine, "machine description: a name or a JSON file");
  command.add_option("--family", o.family, "family file to use, whatever config.json says");
  command.add_option("--models-dir", o.models_dir, "folder of family files that go before the built-in ones");
}

CLI::Option* add_mode_option(CLI::App& command, Mode& mode) {
  return command.add_option_function<std::string>(
      "--mode",
      [&mode](const std::string& name) {
        for (const Mode known : {Mode::kMegakernel, Mode::kKernels})
          if (name == mode_name(known)) return void(mode = known);
        throw CLI::ValidationError("--mode", "found " + name + ", expected megakernel or kernels");
      },
      "megakernel (default): one kernel a step; kernels: one for each grid, in a CUDA graph");
}

Status put_out(const std::string& path, std::span<const std::byte> bytes, bool text) {
  if (path != "-") return mkrt::write_file(path, bytes);
  if (!text && isatty(STDOUT_FILENO))
    return Error{"mkc: error: standard output is a terminal; use -o FILE for binary output"};
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
    return Error{"mkc: error: cannot write to standard output"};
  return {};
}

int run_command(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write()
  CLI::App app("mkc compiles a language model's step into one persistent GPU kernel.", "mkc");
  app.set_version_flag("--version", fmt::format("mkc {}", version()));
  app.require_subcommand(1);
  Action action;
  add_compile(app, action);
  add_run(app, action);
  add_check(app, action);
  add_inspect(app, action);
  add_doctor(app, action);
  add_explain(app, action);
  add_simulate(app, action);
  add_trace(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return finish_output(app.exit(e));
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr,
               "mkc: error: {}\nRun mkc --help for the commands and mkc COMMAND --help for options.\n",
               e.what());
    return 1;
  }
  const Status status = action();
  if (status.ok()) return finish_output(0);
  print_error(status.error().message);
  return 1;
}

}  // namespace mkc
