// A run of the software GPU has settings. docs/softgpu.md has the environment variables.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace softgpu {

struct Settings {
  uint32_t major = 9, minor = 0;  // compute capability
  uint32_t sms = 132;
  uint64_t seed = 1;
  uint32_t quantum = 200;     // instructions of a warp's turn, at most
  uint32_t any_split = 16;    // one pick in so many takes any diverged lanes, not those furthest behind
  uint32_t hold_turns = 8;    // turns of its warps after which a CTA gives some stores to memory, on average
  uint32_t copy_turns = 400;  // turns that an asynchronous copy takes, at most
  bool weak = true;           // other CTAs see stores late, and loads may see old values
  bool races = false;         // accesses that happens-before does not order are found
  bool keep_going = false;    // a race does not end the launch
  bool statistics = false;
  std::string defect;            // the instructions that are broken on purpose (defects.h)
  uint64_t l2_bytes = 32 << 20;  // size that the driver reports; there is no cache
  uint32_t bus_bits = 1024;      // width that the driver reports; there is no memory bus
  std::string coverage;          // file for the PTX lines that were executed; "": none
  std::string banks;             // file for the conflicts of shared memory's banks, by PTX line; "": none
  // says holds what the driver says in place of its own: the error of a call, or a fact of the device.
  std::map<std::string, uint64_t> says;
  std::string error;       // what is wrong with the variables of the environment; "": nothing
  bool exact_sums = true;  // matrix products sum exactly and round once; false: they sum in f32, in order

  // Returns what the driver says by this name, or `otherwise`.
  uint64_t said(const std::string& name, uint64_t otherwise) const;
};

// Returns the settings that the SOFTGPU_* variables ask for, or the error of one that is unknown or misspelt.
Settings settings_of_environment();

}  // namespace softgpu
