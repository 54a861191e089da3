// One check for each primitive that kernels are made of: a kernel of codegen/device/probe.cc, and the host's
// own answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/targets.h"
#include "tools/doctor/gpu.h"

namespace mkc {

using Words = std::vector<uint32_t>;

struct Probe {
  std::string name;  // the instruction, as people know it
  std::string kernel;
  uint32_t blocks = 1, threads = 32, shared_bytes = 0;
  uint32_t argument = 0;  // rounds, as a rule
  Words in{};
  size_t out_words = 0;
  std::function<std::string(const Words& out)> check{};  // what is wrong; "": nothing
  std::string without{};                                 // part to go without where it fails
};

// Those of a target.
std::vector<Probe> probes_of(const Engines& engines);

// Runs one. The fault: of the driver, or what is wrong; "": it passed.
std::string run_probe(Gpu& gpu, const Probe& probe);

}  // namespace mkc
