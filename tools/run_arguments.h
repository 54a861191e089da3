// What mkc run is asked for, and its flags.
#pragma once

#include <optional>
#include <string>

#include "frontend/generation.h"
#include "runtime/abi/sampling.h"
#include "runtime/artefact/artefact.h"
#include "tools/commands.h"

namespace mkc {

// As flags give it; what none gives is the checkpoint's default.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint32_t> top_k;
  uint64_t seed = 0;
};

struct RunArguments {
  ModelRequest request;
  std::string checkpoint;  // of a cubin
  std::string device = "auto";
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_ids;
  std::optional<std::string> batch_file;
  uint32_t page_size = 16, pages = 0;
  bool recompute = false;
  uint32_t max_new_tokens = 64, steps_per_launch = 1;
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

// Flags that exclude each other, or are out of bounds.
Status check_run(const RunArguments& arguments);

// Flags go before what the checkpoint says. A temperature of 0 by a flag is greedy.
mkrt::MkSampling sampling_of(const SamplingFlags& flags, const GenerationDefaults& defaults);

bool is_cubin(const std::string& path);

}  // namespace mkc
