// The GPU that is there, as a target and a machine to compile for.
#pragma once

#include <string>

#include "runtime/device/device_facts.h"
#include "scheduler/machine/native.h"

namespace mkc {

// What --target and --machine call it.
constexpr const char* kNative = "native";

// Where doctor keeps what it measured on a device: devices/NAME-UUID.json in the cache. "": there is no
// cache.
std::string measured_path(const mkrt::DeviceFacts& facts);

// Asks the driver. Unless `ignore_measured`, with what doctor measured. Errors: no device, one that mkc has
// no target for, those of machine_of_device.
Result<NativeMachine> native_machine(bool ignore_measured);

}  // namespace mkc
