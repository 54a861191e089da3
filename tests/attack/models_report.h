// A report has what the cases of each device had and gave. Runs add to it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/attack/models_run.h"

namespace mkc::attack {

bool is_finding(Verdict verdict);

class ModelsReport {
 public:
  // Reads the file if it is there. "" stands for a report that no file gets.
  explicit ModelsReport(std::string file);

  // Returns the number of the device's next case. Cases of another seed than before begin at 0.
  uint64_t begin(DeviceKind device, uint64_t seed);
  // Adds a case of the device's seed. `again` is the command that repeats it.
  void add(const ModelCase& c, const CaseResult& r, double seconds, const std::string& again);
  void write() const;

 private:
  std::string file_;
  nlohmann::ordered_json json_;
};

}  // namespace mkc::attack
