// Doctor measures this processor for its machine description (docs/machines.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/diag.h"
#include "runtime/device/processor_facts.h"

namespace mkc {

// A Spread is what several runs gave.
struct Spread {
  double min = 0, lower = 0, median = 0, upper = 0, max = 0;  // lower, upper: 10th and 90th percentile
  uint32_t runs = 0;
};
Spread spread_of(std::vector<double> samples);  // requires one or more

// MeasuredRow is one quantity, as people read it.
struct MeasuredRow {
  std::string what;  // "read", "signal", "product bf16, x86-64-v4", …
  uint32_t threads = 0;
  std::string unit;  // of a thread where a row says so
  Spread spread;
};

struct ProcessorMeasurement {
  std::vector<MeasuredRow> rows;
  // `figures` has the figures of a machine description by key, {"value": …, "source": …, "range": …}, and
  // those of each target's loops.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  nlohmann::ordered_json targets = nlohmann::ordered_json::object();
  nlohmann::ordered_json left_out = nlohmann::ordered_json::object();  // reasons, by key
  uint32_t disturbed = 0;  // figures left out because of other work on this machine
  double seconds = 0;
};

// Measures for some seconds, with one thread on each processor that the process may use. Errors: the
// processor runs no code of mkc; no memory; no threads.
Result<ProcessorMeasurement> measure_processor(const mkrt::ProcessorFacts& facts);

}  // namespace mkc
