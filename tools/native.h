// The installed GPU as a target and a machine to compile for.
#pragma once

#include <string>

#include "runtime/device/device_facts.h"
#include "scheduler/machine/native.h"

namespace mkc {

// The name of the installed GPU in --target and --machine.
constexpr const char* kNative = "native";
// The name of the running processor in --target: x86-64-v4 or x86-64-v3.
constexpr const char* kThisProcessor = "x86-64";
constexpr const char* kEmulator = "emulator";

// Returns the file of doctor's measurements of a device: devices/NAME-UUID.json in the cache. Returns "" if
// there is no cache.
std::string measured_path(const mkrt::DeviceFacts& facts);

// Returns the machine of the installed GPU, from the driver's facts. Doctor's measurements are used unless
// `ignore_measured` is set. Errors: no device; a device that mkc has no target for; those of
// machine_of_device.
Result<NativeMachine> native_machine(bool ignore_measured);

}  // namespace mkc
