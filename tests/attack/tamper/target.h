// What is tampered with: fixtures compiled for the emulator, and what they answer.
#pragma once

#include <string>
#include <vector>

#include "tools/artefact.h"

namespace mkc::attack {

struct Target {
  std::string name;
  HostArtefact host;
  std::string manifest;  // text
  mkrt::Checkpoint checkpoint;
  std::vector<float> logits;  // of the artefact as it is
};

// The fixtures, each in a mode and by a scheduler of its own.
std::vector<std::string> target_names();
Target make_target(const std::string& name);

enum class Verdict : uint8_t {
  kNone,     // not yet known
  kRefused,  // before anything ran
  kFault,    // an error of a step
  kSame,     // the same logits, bit for bit
  kOther,    // other logits
  kCrash,
  kHang,
};
constexpr const char* kVerdicts[] = {"none", "refused", "fault", "same", "other", "crash", "hang"};
constexpr size_t kVerdictCount = std::size(kVerdicts);

// Loads the parts as they are, or sealed anew, and runs two steps. `sealed_anew`: where the text is no
// manifest it is refused.
Verdict load_and_run(const Target& target, const std::string& manifest, const std::vector<std::byte>& plan,
                     bool sealed_anew);

}  // namespace mkc::attack
