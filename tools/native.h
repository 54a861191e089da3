// mkc can compile for the installed GPU, and for this processor.
#pragma once

#include <string>

#include "runtime/device/device_facts.h"
#include "runtime/device/processor_facts.h"
#include "scheduler/machine/measured.h"
#include "scheduler/machine/native.h"

namespace mkc {

// The name of the installed GPU in --target and --machine.
constexpr const char* kNative = "native";
// The name of the running processor in --target: x86-64-amx, x86-64-v4, x86-64-avx512 or
// x86-64-v3.
constexpr const char* kThisProcessor = "x86-64";
constexpr const char* kEmulator = "emulator";

// Returns the file of doctor's measurements of a device: devices/NAME-UUID.json in the cache. Returns "" if
// there is no cache.
std::string measured_path(const mkrt::DeviceFacts& facts);

// Returns the file of the measurements of `mkc doctor --measure`: devices/MODEL-cpuPROCESSORS.json in the
// cache. A long list of processors is told by its hash. Returns "" if there is no cache.
std::string measured_path(const mkrt::ProcessorFacts& facts);

// Returns what a file of measurements of this processor says of where it was made.
MeasuredOn this_processor(const mkrt::ProcessorFacts& facts);

// Returns the machine of the installed GPU, from the driver's facts. Doctor's measurements are used unless
// `ignore_measured` is set. Errors: no device; a device that mkc has no target for; a file of measurements
// that cannot be read; those of machine_of_device.
Result<NativeMachine> native_machine(bool ignore_measured);

// Returns the machine of a processor target. Measurements of this processor are used if there are some,
// unless `ignore_measured` is set. Those of another processor, of other processors of the machine, or of
// another version of mkc are left out, and `said` tells so. Errors: the file cannot be read; those of
// machine_of_processor.
Result<NativeMachine> processor_machine(const std::string& target, bool ignore_measured);

// Returns the machine that --machine names, or that of the target where it names none. A file may be a
// description, or one that `mkc doctor --measure` wrote. Errors: those of load_machine and processor_machine.
Result<NativeMachine> machine_of(const std::string& name, const std::string& target, bool ignore_measured);

}  // namespace mkc
