// mkc has these machine descriptions built in; CMake generates the table from scheduler/machine/.
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
