// Doctor checks the task bodies, one kind at a time. Each check runs a small model with random weights on the
// device and on this processor.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets.h"
#include "tools/passes.h"

namespace mkc {

struct BodyCheck {
  std::string name;   // name of the check, for people
  std::string body;   // name in tools/gpu/bodies.yaml
  std::string dtype;  // weight type, in the words of config.json
  uint32_t tokens = 0, max_tokens = 0;
  std::string without{};  // target feature not to use if the check fails
};

// Returns checks of all variants of code that a device with these engines runs.
std::vector<BodyCheck> body_checks(const Engines& engines);

// Compiles the check's model for the device and runs the model on this processor. Writes PATH.cubin and
// PATH.reference. Returns the error of compiling or running, or "" if there is none.
std::string prepare_body(const BodyCheck& check, const std::vector<std::string>& without,
                         const std::string& assembler, const std::string& path);

// Runs the prepared model on the device and compares every row of logits. Returns the device's error or the
// wrong rows, or "" if the check passed.
std::string run_body(const BodyCheck& check, const std::string& path);

}  // namespace mkc
