// Doctor checks the task bodies, one kind at a time. Each check runs a small model with random weights on the
// device, and holds every row of logits against float64.
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

// PreparedBody tells how the kernel of a body was made.
struct PreparedBody {
  std::string fault;    // error of compiling, or ""
  bool cached = false;  // the cubin was in the cache
  double seconds = 0;
};

// Compiles the check's model for the device into the file `path`.
PreparedBody prepare_body(const BodyCheck& check, const std::vector<std::string>& without,
                          const std::string& assembler, const std::string& path);

// Runs the model of the file `path` on the device and compares every row of logits. Returns the device's
// error or the wrong rows, or "" if the check passed.
std::string run_body(const BodyCheck& check, const std::string& path);

// Compares the logits that a device left of a sequence, [ids, vocab], with those in float64, and the tokens
// that it sampled from the last rows. Returns the wrong rows or tokens, or "".
std::string compare_logits(std::span<const float> found, std::span<const double> expected, size_t vocab,
                           std::span<const int32_t> sampled);

}  // namespace mkc
