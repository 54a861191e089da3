#include "tools/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <system_error>

#include "codegen/targets.h"
#include "tools/artefact.h"
#include "tools/flags.h"
#include "tools/output.h"
#include "tools/parse_arguments.h"
#include "tools/signals.h"

namespace mkc {
namespace {

constexpr double kMaxSearchSeconds = 86400;
constexpr uint32_t kMaxEvaluations = 1'000'000'000;

// Returns the names of choices.
std::vector<std::string> names_of(const auto& choices, const auto& name_of) {
  std::vector<std::string> names;
  for (const auto choice : choices) names.emplace_back(name_of(choice));
  return names;
}

// Adds -O3 and --evaluations.
void add_search_options(CLI::App& command, std::optional<SearchBudget>& search) {
  CLI::Option* level = command.add_option_function<std::string>(
      "-O",
      [&search](const std::string& text) {
        search = SearchBudget{};
        if (text == "3") return;
        if (!text.starts_with("3=") || !CLI::detail::lexical_cast(text.substr(2), search->seconds) ||
            !(search->seconds > 0 && search->seconds <= kMaxSearchSeconds))
          throw CLI::ValidationError(
              "-O", fmt::format("found {}, expected 3 or 3=SECONDS, at most {}", text, kMaxSearchSeconds));
      },
      "3 or 3=SECONDS (default 10): search for placements, products to split, wgmma_from and ring that "
      "simulated steps are shorter with");
  level->type_name("LEVEL");
  command
      .add_option_function<std::string>(
          "--evaluations",
          [&search](const std::string& text) {
            const auto evaluations = parse_flag<uint32_t>("--evaluations", text, 1, kMaxEvaluations);
            if (search) search->evaluations = evaluations;
          },
          "end the search of -O3 after this many evaluations")
      ->type_name("INT")
      ->needs(level);
}

}  // namespace

void add_model_options(CLI::App& command, ModelRequest& request) {
  ModelOptions& o = request.options;
  command
      .add_option("MODEL", request.model,
                  "checkpoint directory (config.json, *.safetensors), its name in the local Hugging Face "
                  "cache (org/name), "
                  "or model.yaml")
      ->type_name("PATH")
      ->required();
  // Bounds of these flags depend on model and machine, and are checked later.
  const auto add = [&](const char* flag, std::optional<int64_t>& to, const char* help) {
    add_integer<int64_t>(command, flag, to, INT64_MIN, INT64_MAX, help);
  };
  add("--workers", o.workers, "workers (CTAs) of the kernel; default: the machine's");
  add("--max-tokens", o.max_tokens, "tokens of one step at most; default 64");
  add("--max-requests", o.max_requests, "requests of one step at most; default 16");
  // A callback sets the optional, because CLI11 would set a bound variable to false if neither flag is given.
  command.add_flag_function(
      "--batch-invariant,!--no-batch-invariant", [&o](int64_t count) { o.batch_invariant = count > 0; },
      "a token's bits never depend on how many others are in its step");
  add("--context", o.context, "positions of the cache; default min(the model's, 4096)");
  command
      .add_option_function<std::string>(
          "--kv-dtype", [&o](const std::string& name) { o.kv_dtype = parse_dtype(name).value(); },
          "type of keys and values in the cache; default: the weights'")
      ->check(one_of({"bf16", "f16", "f32", "e4m3"}));
  command
      .add_option_function<std::string>(
          "--scheduler",
          [&o](const std::string& name) {
            o.scheduler = *std::find_if(kSchedulers.begin(), kSchedulers.end(),
                                        [&](Scheduler s) { return scheduler_name(s) == name; });
          },
          "static: no tickets; dynamic: workers claim tasks wherever possible; auto: by cost; default auto")
      ->check(one_of(names_of(kSchedulers, scheduler_name)));
  command
      .add_option_function<std::string>(
          "--activations",
          [&o](const std::string& name) {
            o.activations = *std::ranges::find(kActivations, name, activations_name);
          },
          "what activations of many tokens are rounded to for products of E4M3 weights: bf16, fp8, or auto: "
          "fp8 where the checkpoint is made for it and simulated steps are shorter; default auto")
      ->check(one_of(names_of(kActivations, activations_name)));
  add_search_options(command, request.search);
  command
      .add_option(
          "--machine", request.machine,
          "machine description: a name, a JSON file, one of mkc doctor --measure, or native: that of the GPU "
          "that is there")
      ->type_name("MACHINE");
  add_without_option(command, request.without);
  command.add_flag("--ignore-measured", request.ignore_measured,
                   "leave out what mkc doctor measured on this machine (docs/machines.md)");
  command.add_option("--family", o.family, "family file to use, whatever config.json says")
      ->type_name("FILE");
  command.add_option("--models-dir", o.models_dir, "folder of family files that go before the built-in ones")
      ->type_name("DIR");
}

void add_without_option(CLI::App& command, std::vector<std::string>& without) {
  command
      .add_option_function<std::string>(
          "--without",
          [&without](const std::string& list) {
            Result<std::vector<std::string>> found = parse_without(list);
            if (!found.ok()) throw CLI::ValidationError("--without", found.error().message);
            without = std::move(found.value());
          },
          "features of the GPU to go without, with commas between: wgmma, setmaxnreg, bulk "
          "(docs/machines.md)")
      ->type_name("FEATURES");
}

CLI::Option* add_mode_option(CLI::App& command, Mode& mode) {
  return command
      .add_option_function<std::string>(
          "--mode",
          [&mode](const std::string& name) {
            for (const Mode known : {Mode::kMegakernel, Mode::kKernels})
              if (name == mode_name(known)) mode = known;
          },
          "megakernel (default): one kernel a step; kernels: one for each grid, in a CUDA graph")
      ->check(one_of({mode_name(Mode::kMegakernel), mode_name(Mode::kKernels)}));
}

int run_command(int argc, char** argv) {
  handle_signals("mkc");
  reserve_standard_streams();
  CLI::App app(
      "mkc compiles a language model's step into one persistent kernel, for a GPU or for the processor.",
      "mkc");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  Action action;
  add_compile(app, action);
  add_run(app, action);
  add_chat(app, action);
  add_serve(app, action);
  add_check(app, action);
  add_inspect(app, action);
  add_quantize(app, action);
  add_doctor(app, action);
  add_explain(app, action);
  add_simulate(app, action);
  add_trace(app, action);
  add_report(app, action);
  add_completions(app, action);
  add_man(app, action);
  app.footer("exits with 0, with 1 for an error of the user, and with 70 for a bug of mkc");
  try {
    check_names(app, argc, argv);
    parse_arguments(app, argc, argv);
    for (const CLI::App* command : app.get_subcommands()) check_values(*command);
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    const int code = app.exit(e, text, text);
    put_stdout(text.str());
    return finish_output(code);
  } catch (const CLI::ParseError& e) {
    print_err("mkc: error: {}\nRun mkc --help for the commands and mkc COMMAND --help for options.\n",
              e.what());
    return 1;
  }
  const Status status = action();
  if (status.ok()) return finish_output(0);
  print_error(status.error().message);
  return 1;
}

int run_main(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    put_stderr("mkc: error: out of memory\n");
    return 1;
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) {
      print_err("mkc: compiler bug: {}\n", e.what());
      return 70;
    }
    print_err("mkc: error: no thread: {}\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    print_err("mkc: compiler bug: {}\n", e.what());
    return 70;
  }
}

}  // namespace mkc
