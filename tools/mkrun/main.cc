// The program mkrun, which runs an artefact with libmkrt alone, without a compiler or LLVM. A cubin also
// needs the CUDA driver. mkrun suits machines that only serve, and checks and timings on them (tools/gpu).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "runtime/base/file.h"
#include "runtime/base/npy.h"
#include "runtime/base/outputs.h"
#include "runtime/session/session.h"
#include "tools/manual/completions.h"
#include "tools/manual/man_page.h"
#include "tools/mkrun/arguments.h"
#include "tools/mkrun/samples.h"
#include "tools/mkrun/timed_steps.h"
#include "tools/parse_arguments.h"
#include "tools/signals.h"

namespace mkrt {
namespace {

// Opens a session with the checkpoint's weights, or with random ones if there is no checkpoint.
Result<Session> open(const Arguments& a, const Artefact& artefact, Device& device) {
  SessionOptions options;
  options.timeout_ns = a.timeout_ms * 1'000'000;
  options.seal = a.seal;
  options.kept_weights.path = a.keep_weights;
  if (a.steps > 0) {
    Result<CacheSpace> cache = random_cache(a, artefact.manifest, device);
    if (!cache.ok()) return cache.error();
    options.cache.space = std::move(cache.value());
  }
  if (a.checkpoint.empty()) return Session::open(artefact, random_weights(a.random_seed), device, options);
  const Result<Checkpoint> checkpoint = open_checkpoint(a.checkpoint);
  if (!checkpoint.ok()) return checkpoint.error();
  const Result<std::string> config = read_text(a.checkpoint + "/config.json", size_t{1} << 20);
  if (!config.ok()) return config.error();
  return Session::open(artefact, checkpoint.value(), hash_hex(config.value()), device, options);
}

Status run(const Arguments& a, Session& session, nlohmann::json& out) {
  std::vector<float> logits;
  GenerateOptions options;
  options.max_new_tokens = a.max_new_tokens;
  options.steps_per_launch = a.steps_per_launch;
  options.stop_ids = session.manifest().eos_ids;
  if (a.steps_per_launch == 1 || !a.logits_out.empty()) options.logits = &logits;
  bool not_finite = false;
  options.not_finite = &not_finite;
  const Result<std::vector<int32_t>> tokens = generate(session, a.prompt, options);
  if (!tokens.ok()) return tokens.error();
  if (not_finite) fmt::print(stderr, "mkrun: warning: {}\n", kNotFiniteText);
  out["prompt_ids"] = a.prompt;
  out["new_ids"] = tokens.value();
  if (!options.logits) return {};
  out["logits_hash"] =
      hash_hex({reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
  if (a.logits_out.empty()) return {};
  return write_npy(a.logits_out, logits, session.manifest().vocab);
}

// Prints a line and flushes it, because its reader may have to stop this program.
void say(const nlohmann::json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

// Opens the device that the artefact is for.
Result<std::unique_ptr<Device>> open_device(const Arguments& a, const Manifest& manifest) {
  if (!manifest.target.starts_with("x86-64")) {
    if (a.keep_weights.empty()) return open_cuda(a.device.value_or(0));
    return Error{
        fmt::format("--keep-weights: error: is for processors, {} is for {}", a.artefact, manifest.target)};
  }
  if (a.device)
    return Error{
        fmt::format("--device {}: error: is for GPUs, {} is for {}", *a.device, a.artefact, manifest.target)};
  return open_processor();
}

// Refuses outputs that cannot be written, and those that are one file or a file that is read.
Status check_outputs(const Arguments& a) {
  std::vector<std::string> inputs{a.artefact};
  if (!a.checkpoint.empty())
    for (std::string& file : checkpoint_files(a.checkpoint)) inputs.push_back(std::move(file));
  for (const std::string& output : {a.logits_out, a.trace}) {
    if (output.empty()) continue;
    if (output == "-")
      return Error{"mkrun: error: the result takes standard output, expected a file in place of -"};
    if (Status status = check_writable(output); !status.ok()) return status;
    if (Status status = check_kept(output, inputs, "is read"); !status.ok()) return status;
  }
  return check_apart(a.trace, a.logits_out);
}

Status work(const Arguments& a) {
  if (Status status = check_outputs(a); !status.ok()) return status;
  const Result<Artefact> artefact = load_artefact(a.artefact, a.seal);
  if (!artefact.ok()) return artefact.error();
  if (!a.trace.empty() && !artefact.value().manifest.traced)
    return Error{fmt::format("{}: error: is not traced, expected one of mkc compile --trace", a.artefact)};
  const Result<std::unique_ptr<Device>> device = open_device(a, artefact.value().manifest);
  if (!device.ok()) return device.error();
  Result<Session> session = open(a, artefact.value(), *device.value());
  if (!session.ok()) return session.error();
  const Result<std::vector<TimedStep>> steps = timed_steps(a, session.value());
  if (!steps.ok()) return steps.error();
  const WeightsReport& weights = session.value().weights();
  for (const std::string& warning : weights.warnings) fmt::print(stderr, "{}\n", warning);
  const Manifest& m = artefact.value().manifest;
  nlohmann::json out{{"device", device.value()->name()},
                     {"target", m.target},
                     {"workers", m.workers},
                     {"steps_per_launch", a.steps_per_launch},
                     {"weight_bytes", m.weight_bytes},
                     {"weights_mapped", weights.mapped},
                     {"weights_s", weights.seconds}};
  if (!a.prompt.empty() && !a.compare_samples)
    if (Status status = run(a, session.value(), out); !status.ok()) return status;
  if (a.compare_samples) {
    Result<nlohmann::json> compared = compare_samples(session.value(), a.prompt, a.max_new_tokens);
    if (!compared.ok()) return compared.error();
    out.update(compared.value());
  }
  say(out);
  for (const TimedStep& step : steps.value()) {
    const Result<nlohmann::json> timed = time_step(a, session.value(), step);
    if (!timed.ok()) return timed.error();
    say(timed.value());
  }
  return a.trace.empty() ? Status() : session.value().write_trace(a.trace);
}

// Returns work()'s status, or that this machine has no memory or no thread for it.
Status try_work(const Arguments& a) {
  try {
    return work(a);
  } catch (const std::bad_alloc&) {
    return Error{"mkrun: error: out of memory"};
  } catch (const std::system_error& e) {
    return Error{fmt::format("mkrun: error: no thread: {}", e.what())};
  }
}

// Returns the exit code of a program that ends with a status, once all output is written.
int finish(Status status) {
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0))
    status = Error{"mkrun: error: cannot write to standard output"};
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return 1;
}

}  // namespace
}  // namespace mkrt

constexpr uint32_t kMaxCount = 1u << 30;
constexpr uint64_t kMaxPositions = uint64_t{1} << 34;  // so that pages have 32 bits
constexpr uint64_t kMaxMs = 1'000'000'000;             // eleven days

// Throws CLI::ValidationError for an empty value.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) throw CLI::ValidationError(option->get_name(), "found an empty value");
}

// Adds --man and --completions, which print what cmake --install installs and end the program.
void add_manual(CLI::App& app) {
  app.add_flag_callback(
      "--man",
      [&app] {
        fmt::print("{}", mkc::man_page(mkc::table_of(app, {}), "mkrun " MKC_VERSION, "mkc(1)"));
        throw CLI::Success();
      },
      "print the manual page, for man -l");
  app.add_option_function<std::string>(
         "--completions",
         [&app](const std::string& shell) {
           fmt::print("{}", mkc::completion_for(shell, mkc::table_of(app, {})));
           throw CLI::Success();
         },
         "print the completion script of a shell")
      ->check(CLI::IsMember(mkc::shell_names()));
}

int main(int argc, char** argv) {
  mkc::reserve_standard_streams();
  mkc::handle_signals("mkrun");
  mkrt::Arguments a;
  CLI::App app(
      "mkrun runs a cubin or shared object made by mkc and prints a JSON object, and one for each timing as "
      "it comes.",
      "mkrun");
  app.add_option("ARTEFACT", a.artefact, "a cubin or shared object made by mkc compile")
      ->type_name("FILE")
      ->required();
  app.add_option("--checkpoint", a.checkpoint, "directory of the weights; default: random ones")
      ->type_name("DIR");
  app.add_option("--keep-weights", a.keep_weights, "folder that keeps packed weights for the next start")
      ->type_name("DIR");
  app.add_option("--random-seed", a.random_seed, "of random weights and of timed steps' caches; default 1")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? fmt::format("found {}, expected 0 to {}", text, UINT64_MAX) : "";
      });
  app.add_option("--device", a.device, "ordinal of the GPU; default 0");
  CLI::Option* prompt = app.add_option("--prompt-ids", a.prompt, "token ids to go on from: 1,2,3");
  prompt->check(CLI::Range(0, INT32_MAX))->delimiter(',');
  app.add_option("--max-new-tokens", a.max_new_tokens, "new tokens at most; default 64")
      ->check(CLI::Range(1u, kMaxCount));
  app.add_option("--steps-per-launch", a.steps_per_launch,
                 "let the kernel go on by itself for so many tokens; default 1")
      ->check(CLI::Range(1u, mkrt::kMaxSteps));
  app.add_option("--logits-out", a.logits_out, "write the logits of all fed positions, float32, as .npy")
      ->type_name("FILE");
  app.add_option("--trace", a.trace, "write what the workers did in the last launch, of a traced artefact")
      ->type_name("FILE");
  app.add_flag(
      "--compare-samples", a.compare_samples,
      "sample after the prompt by parameters of every kind, and count what the host samples otherwise");
  app.add_flag_callback(
      "--unsafe-artefact", [&a] { a.seal = mkrt::SealCheck::kSkipped; },
      "run an artefact whose seal is broken, or whose schedule was not proved");
  app.add_option("--timeout-ms", a.timeout_ms, "of a wait inside the kernel; default 10000, 0: never")
      ->check(CLI::Range(uint64_t{0}, kMaxMs));
  app.add_option("--steps", a.steps, "time so many equal steps")->check(CLI::Range(0u, kMaxCount));
  app.add_option("--warm-up", a.warm_up, "steps before that; default 10")->check(CLI::Range(0u, kMaxCount));
  app.add_option("--hash-every", a.hash_every, "launches between two whose logits are looked at; default 16")
      ->check(CLI::Range(1u, kMaxCount));
  app.add_option("--tokens", a.tokens, "of a timed step: 1,16")->check(CLI::Range(1u, 256u))->delimiter(',');
  app.add_option("--batch", a.batches, "requests of a timed step, each of so many tokens: 1,8")
      ->check(CLI::Range(1u, 64u))
      ->delimiter(',');
  app.add_option(
         "--cache-positions", a.positions,
         "of all requests of a timed step; those that need more are left out. Default: what the largest "
         "needs")
      ->check(CLI::Range(uint64_t{1}, kMaxPositions));
  app.add_option("--contexts", a.contexts, "positions in the cache at the end of a timed step: 128,1024")
      ->check(CLI::Range(1u, kMaxCount))
      ->delimiter(',');
  for (const char* of : {"--max-new-tokens", "--compare-samples", "--logits-out"})
    app.get_option(of)->needs(prompt);
  for (const char* of :
       {"--warm-up", "--hash-every", "--tokens", "--batch", "--cache-positions", "--contexts"})
    app.get_option(of)->needs(app.get_option("--steps"));
  add_manual(app);
  app.set_version_flag("--version", "mkrun " MKC_VERSION);
  app.footer("exits with 0, or with 1 for an error");
  try {
    mkc::parse_arguments(app, argc, argv);
    check_values(app);
    if (app.count("--random-seed") > 0 && !a.checkpoint.empty() && a.steps == 0)
      throw CLI::ValidationError("--random-seed", "is for random weights or --steps, not for --checkpoint");
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? mkrt::finish({}) : 1;
  }
  return mkrt::finish(mkrt::try_work(a));
}
