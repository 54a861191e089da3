// Targets are fixtures compiled for the emulator, with their answers. Mutants tamper with them.
#pragma once

#include <string>
#include <vector>

#include "tools/artefact.h"

namespace mkc::attack {

struct Target {
  std::string name;
  HostArtefact host;
  std::string manifest;  // text of the manifest
  mkrt::Checkpoint checkpoint;
  std::vector<float> logits;  // logits of the untouched artefact
};

// Returns the names of the targets. Each has a fixture, a mode and a scheduler.
std::vector<std::string> target_names();
Target make_target(const std::string& name);

enum class Verdict : uint8_t {
  kNone,     // not yet known
  kRefused,  // refused before anything ran
  kFault,    // a step ended in an error
  kSame,     // the same logits, bit for bit
  kOther,    // other logits
  kCrash,
  kHang,
};
constexpr const char* kVerdicts[] = {"none", "refused", "fault", "same", "other", "crash", "hang"};
constexpr size_t kVerdictCount = std::size(kVerdicts);

// Loads the parts as they are, or sealed anew, and runs two steps. Text that is no manifest is refused even
// where it is to be sealed anew.
Verdict load_and_run(const Target& target, const std::string& manifest, const std::vector<std::byte>& plan,
                     bool sealed_anew);

}  // namespace mkc::attack
