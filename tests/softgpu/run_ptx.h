// Runs a few lines of PTX on the software GPU, for tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tests/softgpu/machine.h"

namespace softgpu {

struct Run {
  std::string
      body;  // body of a kernel: %out is the address of 4096 bytes of zeros, %t is %tid.x, %c is %ctaid.x
  uint32_t blocks = 1, threads = 32, shared_bytes = 4096;
  uint32_t registers_per_thread = 0;
  Settings settings{};
  bool twice = false;  // runs a second launch that may overlap the first
};

struct Outcome {
  std::string error;
  std::vector<uint32_t> out;
  Statistics statistics;
};

inline std::string module_of(const std::string& body) {
  return ".version 8.7\n.target sm_90a\n.address_size 64\n"
         ".extern .shared .align 1024 .b8 smem[];\n"
         ".visible .entry k(\n.param .u64 p\n)\n{\n"
         ".reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<256>; .reg .b64 %d<64>;\n"
         ".reg .b64 %out; .reg .b32 %t; .reg .b32 %c;\n"
         "ld.param.b64 %out, [p]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;\n" +
         body + "\nret;\n}\n";
}

inline Outcome run_ptx(const Run& run) {
  Machine machine(run.settings);
  Outcome outcome;
  Module module;
  try {
    module = parse_ptx(module_of(run.body));
  } catch (const PtxError& e) {
    outcome.error = e.what();
    return outcome;
  }
  Kernel& kernel = module.kernels.at("k");
  kernel.registers_per_thread = run.registers_per_thread;
  const uint64_t out = machine.memory.allocate(4096);
  std::memset(reinterpret_cast<void*>(out), 0, 4096);
  Launch launch;
  launch.kernel = &kernel;
  launch.blocks = run.blocks, launch.threads = run.threads, launch.shared_bytes = run.shared_bytes;
  launch.parameters.resize(8);
  std::memcpy(launch.parameters.data(), &out, 8);
  std::vector<Launch> launches{launch};
  if (run.twice) {
    launch.may_overlap = true;
    launches.push_back(launch);
  }
  outcome.error = machine.run(launches);
  const auto* words = reinterpret_cast<const uint32_t*>(out);
  outcome.out.assign(words, words + 1024);
  outcome.statistics = machine.statistics;
  return outcome;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace softgpu
