// The command mkc run --prompt prints one text as it comes.
#pragma once

#include <optional>
#include <vector>

#include "runtime/text/tokenizer.h"
#include "tools/run_load.h"

namespace mkc {

struct PromptRun {
  std::vector<int32_t> prompt;
  std::optional<mkrt::Tokenizer> tokenizer;  // nothing: ids are printed
  mkrt::MkSampling sampling;
};

// Generates, and prints the text or the JSON object that the arguments ask for. A line of standard error says
// how fast the tokens came and why they ended. Errors: those of mkrt::generate; outputs that cannot be
// written.
Status run_prompt(const RunArguments& arguments, const PromptRun& run, const Loaded& loaded,
                  mkrt::Session& session);

}  // namespace mkc
