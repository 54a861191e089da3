// Placements held against each other by simulated steps. Internal to place.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

// The grids of the first two layers, and those before: the second begins in the middle of a stream, as all
// others do. What only later grids wait for is counted no more.
TaskProgram first_layers(TaskProgram program);

struct SampleStep {
  std::string name;
  std::vector<int64_t> values;  // of symbols
};

// A way to place the grids, and the times of the first steps.
struct Trial {
  Schedule schedule;
  std::vector<double> ns;
};

double mean(const std::vector<double>& ratios);

// Steps of a program: of one request of one token, of half as many as may be, of all; and of all with mixed
// lengths, one of which brings what is left of the step's tokens.
class Trials {
 public:
  Trials(TaskProgram program, const Machine& machine, uint32_t workers);

  // `placements` by GridId, of these grids or more. Errors: those of deal().
  Result<Trial> begin(const std::vector<Placement>& placements) const;
  // The same of another program with the same symbols.
  Result<Trial> begin(const TaskProgram& program, const std::vector<Placement>& placements) const;
  // Times of the trial's steps by those of the base, up to the first that the trial may not take so long for.
  // Errors: those of simulate().
  Result<std::vector<double>> ratios(Trial& trial, Trial& base) const;
  // Whether no step takes too long, and the mean is at most `most`.
  bool wins(const std::vector<double>& ratios, double most) const;
  std::string text(const std::vector<double>& ratios) const;  // "1 request 1.000, 16 mixed 0.871"

 private:
  Status simulate_steps(Trial& trial, size_t count) const;

  const TaskProgram program_;
  const Machine& machine_;
  const uint32_t workers_;
  const std::vector<SampleStep> steps_;
};

}  // namespace mkc
