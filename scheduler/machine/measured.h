// `mkc doctor --measure` measures the machine description of a processor. docs/machines.md has the form of
// its files.
#pragma once

#include <string>
#include <string_view>

#include "ir/diag.h"
#include "scheduler/machine/native.h"

namespace mkc {

// MeasuredOn says where a file of measurements was made. All four must agree for the file to be this
// machine's.
struct MeasuredOn {
  std::string device;      // name of the processor
  std::string model;       // vendor, family, model and stepping
  std::string processors;  // processors that mkc was allowed to use: "0-3"
  std::string mkc;         // version of mkc
  bool operator==(const MeasuredOn&) const = default;
};

// Tells whether a text is that of a file of measurements and not a description: whether it has figures.
bool is_measured(std::string_view text);

// Reads where a file was made. Errors: the text is no file of mkc doctor --measure.
Result<MeasuredOn> measured_on(std::string_view text);

// MachineSize is what a process finds now. A figure of 0 is that of the file.
struct MachineSize {
  uint32_t workers = 0;
  uint64_t memory_bytes = 0;
};

// Returns the description of a processor target with the figures of a file in place of nominal ones. Its text
// names the figures that stay nominal. Errors: a file that mkc doctor --measure did not write; a target that
// was not measured; figures that no description may have.
Result<NativeMachine> machine_of_processor(std::string_view measured, std::string_view target,
                                           const MachineSize& here = {});

// Returns the description of a processor whose step finds all weights in the last-level cache, as those of
// the step before. The stream comes from there. Errors: those of read_machine.
Result<Machine> with_weights_in_cache(const Machine& machine);
// Tells whether weights of so many bytes stay in the last-level cache of a processor: in half of it at most.
bool stay_in_cache(const Machine& machine, uint64_t weight_bytes);

// Returns the nominal description of a processor target. `reason` says why there is no measured one.
Result<NativeMachine> nominal_processor(std::string_view target, std::string_view reason);

}  // namespace mkc
