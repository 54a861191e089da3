// Settings are compared by simulated steps. This header is internal to search.
#pragma once

#include <string>
#include <vector>

#include "scheduler/search/search.h"

namespace mkc {

// Returns the grids of the first layers and the grids before them. Adds the products of the next layer,
// except the last. Layers thus begin and end in the middle of a stream, as most layers do. Requires a program
// without events.
TaskProgram first_layers(const TaskProgram& program);

struct SampleStep {
  std::string name;
  std::vector<int64_t> values;  // values of the symbols
};

// Evaluation has settings without those that change nothing, the schedule that they make, and the times of
// its first steps.
struct Evaluation {
  Settings settings;
  Schedule schedule;
  std::vector<double> ns;
};

// Returns the arithmetic mean. Requires at least one ratio.
double mean(const std::vector<double>& ratios);

// Evaluator evaluates settings on steps of a program without events. The first three steps have requests of
// one token each: one request, the most requests, and half of the most. The fourth step has the most requests
// with mixed lengths; one request brings the rest of the step's tokens.
class Evaluator {
 public:
  Evaluator(TaskProgram program, const Machine& machine, const SearchOptions& options);

  // Assigns the program's tasks under the given settings and those that the user asks for. The schedule has
  // no memory and counters. `like` is an evaluation whose events are reused where it has the same products.
  // Errors: impossible settings or rules; those of derive_events and assign.
  Result<Evaluation> begin(Settings settings, const Evaluation* like = nullptr) const;
  // Returns the times of the evaluation's steps relative to the base. The result ends with the first step
  // that is too slow. Simulates the steps that the base lacks. Errors: those of simulate().
  Result<std::vector<double>> ratios(Evaluation& evaluation, Evaluation& base) const;
  // Simulates the steps that an evaluation lacks, all at once.
  Status simulate_all(Evaluation& evaluation) const;
  bool has_all_steps(const Evaluation& evaluation) const { return evaluation.ns.size() == steps_.size(); }
  // Tells whether no step is too slow and the mean is at most `max`.
  bool wins(const std::vector<double>& ratios, double max) const;
  // Returns the times of the evaluation's steps relative to another: "1 request 1.000, 16 mixed 0.871".
  std::string figures(const Evaluation& evaluation, const Evaluation& by) const;

 private:
  // Returns the program with the splits of `settings`, those that the user asks for, and events.
  Result<TaskProgram> events(const Settings& settings) const;
  // Simulates steps until the evaluation has `count` of them.
  Status simulate_steps(Evaluation& evaluation, size_t count) const;

  const TaskProgram program_;
  const Machine& machine_;
  const SearchOptions& options_;
  const std::vector<SampleStep> steps_;
};

}  // namespace mkc
