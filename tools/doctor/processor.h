// Doctor reports this processor and its measurement.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/doctor/processor_measure.h"

namespace mkc {

struct ProcessorFindings {
  mkrt::ProcessorFacts facts;
  std::optional<ProcessorMeasurement> measured;
  std::string kept;      // file of the measurement, or ""
  std::string not_kept;  // why there is no such file
  std::string machine;   // where the machine description comes from, or the error
};

struct ProcessorOptions {
  bool measure = false, ignore_measured = false;
  std::string output;  // file of the measurement; "": in the cache
};

// Looks at the processor, and measures it if asked to. Errors: those of measure_processor; a file that cannot
// be written, which is found before the measurement.
Result<ProcessorFindings> look_at_processor(const ProcessorOptions& options);

// Returns the file of a measurement (docs/machines.md).
nlohmann::ordered_json measured_file(const mkrt::ProcessorFacts& facts, const ProcessorMeasurement& measured);

// Returns the sizes of memory and caches, as people read them.
std::string sizes_text(const mkrt::ProcessorFacts& facts);
// Returns the limits of a container that are below what the machine has, each with its file.
std::vector<std::string> limits_text(const mkrt::ProcessorFacts& facts);

// Returns how many figures a file of a measurement has. A table of a target counts as one.
size_t figures_of(const nlohmann::ordered_json& file);

// Returns why a disturbed measurement leaves the file of the default place as it is, or "". A file stays that
// was made here, and has more figures.
std::string why_file_stays(const std::string& path, const mkrt::ProcessorFacts& facts,
                           const ProcessorMeasurement& measured);

// Returns what disturbs a measurement: other work, or the limit of a container.
std::string disturbance_text(const mkrt::ProcessorFacts& facts);

void print_processor(const ProcessorFindings& found);
nlohmann::ordered_json processor_json(const ProcessorFindings& found);

}  // namespace mkc
