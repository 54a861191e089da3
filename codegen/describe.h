// A schedule's manifest tells the runtime how to run the kernel.
#pragma once

#include "codegen/mode.h"
#include "codegen/targets.h"
#include "ir/schedule.h"
#include "runtime/artefact/manifest.h"

namespace mkc {

// ModelIdentity has facts of the manifest that are not in the schedule.
struct ModelIdentity {
  std::string mkc_version;
  std::string family;
  std::string config_hash;    // mkrt::hash_hex of config.json
  std::string schedule_hash;  // mkrt::hash_hex of the schedule's text
  std::string target;         // "sm_90a", …, "emulator"
  std::vector<int32_t> eos_ids;
  int32_t bos_id = -1;
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without{};  // target features that the code does not use: parse_without()
  Engines engines{};                   // of the target
  std::vector<mkrt::ManifestCopy> copies{};
};

// Returns the bytes of a worker's own memory: ring, barriers, lists of the step, and scratch memory of the
// bodies. Workers of a processor have no ring, but room for the rows of the largest product.
uint32_t shared_bytes(const Schedule& schedule, const Engines& engines = {});

// Returns the runtime's name of a dtype.
mkrt::Element element_of(DType dtype);

// Returns the weights of a schedule, in the order of its tensors.
std::vector<mkrt::ManifestWeight> describe_weights(const Schedule& schedule);

// Returns the manifest, with the certificate and the seals left empty. Requires a proved schedule of a graph
// whose outputs are logits [T, vocab] and next [T].
mkrt::Manifest describe(const Schedule& schedule, const ModelIdentity& identity);

}  // namespace mkc
