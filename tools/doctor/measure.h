// What a device gives at best, for its machine description: codegen/device/measure.cc run and read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/device/device_facts.h"
#include "tools/doctor/gpu.h"

namespace mkc {

struct Measurement {
  // Of a description, {"value": …, "source": …}, where what was measured may be believed.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  nlohmann::ordered_json left_out =
      nlohmann::ordered_json::object();  // other figures: what came out, and why not
  nlohmann::ordered_json seen = nlohmann::ordered_json::object();  // all, for people
};

// The reading rate, cold bursts (the ramp) and what a signal between two blocks costs. `bulk`: with bulk
// copies, too. Ends within some seconds: buffers grow as long as a pass over them takes little time, and
// figures that a small one gives are left out. Errors: the driver's.
Result<Measurement> measure(Gpu& gpu, const mkrt::DeviceFacts& facts, bool bulk);

}  // namespace mkc
