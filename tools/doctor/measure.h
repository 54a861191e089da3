// Doctor measures a device for its machine description, by the kernels of codegen/device/measure.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/device/device_facts.h"
#include "tools/doctor/gpu.h"

namespace mkc {

struct Measurement {
  // figures holds the plausible measurements by key of a machine description: {"value": …, "source": …}.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  nlohmann::ordered_json left_out =
      nlohmann::ordered_json::object();  // reasons why other measurements are not plausible, by key
  nlohmann::ordered_json seen = nlohmann::ordered_json::object();  // all measured values, for people
  double clock_mhz = 0;  // of a multiprocessor after the reads; 0: the device's clock stood still
};

// Measures the read rate of memory, cold bursts (the ramp), and the latency of a signal between two blocks.
// `bulk` also measures reads by bulk copies. Errors: those of the driver.
//
// The measurement takes some seconds. Buffers grow until a pass over them takes too long. Values from too
// small a buffer are left out.
Result<Measurement> measure(Gpu& gpu, const mkrt::DeviceFacts& facts, bool bulk);

// Returns the date in UTC, as in 2026-11-26.
std::string today();

}  // namespace mkc
