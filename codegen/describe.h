// The manifest of a schedule: what the runtime needs to know of the kernel.
#pragma once

#include "codegen/mode.h"
#include "ir/schedule.h"
#include "runtime/artefact/manifest.h"

namespace mkc {

// What the manifest says beyond the schedule.
struct ModelIdentity {
  std::string mkc_version;
  std::string family;
  std::string config_hash;    // mkrt::hash_hex of config.json
  std::string schedule_hash;  // mkrt::hash_hex of the schedule's text
  std::string target;         // "sm_90a", …, "emulator"
  std::vector<int32_t> eos_ids;
  int32_t bos_id = -1;
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without{};  // parts that the code goes without
};

// Dynamic shared memory of a worker: its ring, barriers, lists of the step, and the bodies' scratch.
uint32_t shared_bytes(const Schedule& schedule);

// How the runtime calls a type.
mkrt::Element element_of(DType dtype);

// The certificate and the seals are left empty. Requires a proved schedule of a graph whose outputs are
// logits [T, vocab] and next [T].
mkrt::Manifest describe(const Schedule& schedule, const ModelIdentity& identity);

}  // namespace mkc
