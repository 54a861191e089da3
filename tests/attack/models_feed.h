// Random steps feed sequences to a compiled model.
#pragma once

#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/attack/models_case.h"
#include "tools/artefact.h"

namespace mkc::attack {

struct Sequence {
  std::vector<int32_t> ids;
  std::vector<int32_t> pages;
  size_t fed = 0;
  std::vector<float> logits;  // [fed, vocab]
};

// Returns the sequences of a case, of which nothing is fed yet.
std::vector<Sequence> make_sequences(const ModelCase& c);

// `Compiled` is a model under one setting, for the case's device. The processor's artefact has its code.
struct Compiled {
  std::string config_hash;
  mkrt::Checkpoint checkpoint;
  HostArtefact host;
};
Result<Compiled> compile(const ModelCase& c, const Setting& setting, const std::string& directory);

struct Fed {
  std::vector<Sequence> sequences;
  size_t max_rows = 0;          // greatest number of rows of a step
  size_t prompt_rows = 0;       // the same while the other session is fed
  std::vector<int32_t> tokens;  // tokens generated behind the prompt, by another session
};
// Feeds all sequences. Errors are those of a session or a step.
Result<Fed> feed(const ModelCase& c, const Setting& setting, const Run& run, const Compiled& compiled);

}  // namespace mkc::attack
