// The machine descriptions built into mkc; the table is generated from scheduler/machine/ by CMake.
#pragma once

#include <span>
#include <string_view>

namespace mkc {

struct MachineData {
  std::string_view name;
  std::string_view json;
};

// Returns the built-in descriptions.
std::span<const MachineData> machine_data();

}  // namespace mkc
