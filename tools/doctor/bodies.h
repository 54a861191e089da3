// The task bodies one kind at a time: small models with random weights, on the device and on this processor.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets.h"
#include "tools/passes.h"

namespace mkc {

struct BodyCheck {
  std::string name;   // for people
  std::string body;   // of tools/gpu/bodies.yaml
  std::string dtype;  // of the weights, as config.json has it
  uint32_t tokens = 0, max_tokens = 0;
  std::string without{};  // what to try where it fails
};

// Those that a device with these engines runs in different ways.
std::vector<BodyCheck> body_checks(const Engines& engines);

// Compiles the model for the device, runs it on this processor, and leaves both under `path`, with endings of
// their own. What compiling or this processor says against it; "": nothing.
std::string prepare_body(const BodyCheck& check, const std::vector<std::string>& without,
                         const std::string& assembler, const std::string& path);

// Runs what was prepared on the device and compares every row of logits. The fault: what the device says, or
// which rows are wrong; "": it passed.
std::string run_body(const BodyCheck& check, const std::string& path);

}  // namespace mkc
