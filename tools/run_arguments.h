// mkc run has these arguments and flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/generation.h"
#include "runtime/abi/sampling.h"
#include "runtime/artefact/artefact.h"
#include "tools/commands.h"

namespace mkc {

// SamplingFlags are the sampling parameters given by flags. The checkpoint's defaults stand for the others.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint32_t> top_k;
  uint64_t seed = 0;
};

// The new tokens of a text without --max-new-tokens, or as many as the context leaves.
constexpr uint32_t kDefaultNewTokens = 64;

// The values of --keep-weights.
constexpr const char *kKeep = "yes", *kDoNotKeep = "no";

struct RunArguments {
  ModelRequest request;
  std::vector<const CLI::Option*> compiling;  // options that a compiled model has no use for
  std::string checkpoint;                     // directory of the weights, if the model is compiled already
  std::string device = "auto";
  std::optional<int64_t> threads;           // of the processor
  std::optional<std::string> keep_weights;  // default: kKeep
  std::optional<uint64_t> kept_weights_gb;  // limit of the folder
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_ids;
  std::optional<std::string> batch_file;
  uint32_t page_size = 16, pages = 0;
  bool recompute = false, prefix_cache = true;
  uint32_t max_rows_beside_decodes = 0;  // 0: no bound
  std::optional<uint32_t> max_new_tokens;
  uint32_t steps_per_launch = 1;
  SamplingFlags sampling;
  std::optional<uint32_t> logprobs;
  bool json = false;
  bool no_special = false;
  std::string logits_out, trace;
  std::string assembler;
  uint64_t emulator_seed = 0;
  uint32_t emulator_threads = 1;
  bool race = false;
  uint64_t timeout_ms = 10'000;
  mkrt::SealCheck seal = mkrt::SealCheck::kRequired;
};

void add_run_options(CLI::App& command, RunArguments& arguments);

// The parts of these options that mkc serve or mkc chat have, too: model and device, whose --mode is
// returned; the cache and who gets rows of a step, for many requests, or with one request's pages alone; new
// tokens; sampling; the steps of a launch; the rest of a launch.
CLI::Option* add_device_options(CLI::App& command, RunArguments& arguments);
std::vector<CLI::Option*> add_cache_options(CLI::App& command, RunArguments& arguments);
std::vector<CLI::Option*> add_page_options(CLI::App& command, RunArguments& arguments);
void add_new_tokens_option(CLI::App& command, RunArguments& arguments, const std::string& help);
void add_sampling_options(CLI::App& command, SamplingFlags& flags);
void add_steps_option(CLI::App& command, RunArguments& arguments);
void add_launch_options(CLI::App& command, RunArguments& arguments);

// Checks the arguments. Errors: flags that exclude each other; values out of bounds. check_chat() leaves out
// what only mkc run has, and check_device() leaves out sampling, too.
Status check_run(const RunArguments& arguments);
Status check_chat(const RunArguments& arguments);
Status check_device(const RunArguments& arguments);

// Returns the sampling parameters. Flags override the checkpoint's defaults. A temperature flag of 0 means
// greedy sampling.
mkrt::MkSampling sampling_of(const SamplingFlags& flags, const GenerationDefaults& defaults);

// Tells whether a path names a compiled model: a cubin, or a shared object for a processor.
bool is_artefact(const std::string& path);

}  // namespace mkc
