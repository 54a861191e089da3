// GpuFindings are what doctor found of a GPU. They are printed for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device_facts.h"
#include "tools/doctor/checks.h"

namespace mkc {

struct GpuFindings {
  mkrt::DeviceFacts facts;
  std::string machine;  // text on the GPU's target and machine, or the error
  std::optional<CheckReport> checked;
  std::string not_checked;  // reason why the GPU was not checked
  std::string kept;         // file of the measurements
  std::vector<std::string> notes;
};

void print_gpu(const GpuFindings& f);
void add_gpu_json(nlohmann::ordered_json& out, const GpuFindings& f);
// Returns an error if a check failed, or the GPU could not be used.
Status verdict(const GpuFindings& f);

}  // namespace mkc
