// Sequences fed to a compiled model by random steps.
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

// A model under one setting, on the emulator.
struct Compiled {
  std::string config_hash;
  mkrt::Checkpoint checkpoint;
  HostArtefact host;
};
Result<Compiled> compile(const ModelCase& c, const Setting& setting, const std::string& directory);

struct Fed {
  std::vector<Sequence> sequences;
  size_t max_rows = 0;          // of any step
  std::vector<int32_t> tokens;  // generated behind the first sequence, by another session
};
// Errors: of a session or a step.
Result<Fed> feed(const ModelCase& c, const Setting& setting, const Compiled& compiled);

}  // namespace mkc::attack
