// Settings held against each other by simulated steps. Internal to search.
#pragma once

#include <string>
#include <vector>

#include "scheduler/search.h"

namespace mkc {

// The grids of the first layers, those before, and of the layer behind all products but the last: so layers
// begin and end in the middle of a stream, as most do. Requires no events.
TaskProgram first_layers(const TaskProgram& program);

struct SampleStep {
  std::string name;
  std::vector<int64_t> values;  // of symbols
};

// Settings, without such as change nothing, the schedule they make, and the times of its first steps.
struct Evaluation {
  Settings settings;
  Schedule schedule;
  std::vector<double> ns;
};

double mean(const std::vector<double>& ratios);

// Steps of a program without events: of one request of one token, of as many as may be, of half of them; and
// of all with mixed lengths, one of which brings what is left of the step's tokens.
class Evaluator {
 public:
  Evaluator(TaskProgram program, const Machine& machine, const SearchOptions& options);

  // With what is asked for of the program's grids, as far as place() goes without memory and counters.
  // `like`: an evaluation whose events can be taken where products are the same. Errors: settings or rules
  // that are impossible; those of derive_events and assign.
  Result<Evaluation> begin(Settings settings, const Evaluation* like = nullptr) const;
  // Times of the evaluation's steps by those of the base, up to the first that the evaluation may not take so
  // long for. The base gets those that it lacks. Errors: those of simulate().
  Result<std::vector<double>> ratios(Evaluation& evaluation, Evaluation& base) const;
  // The times that an evaluation lacks, all at once.
  Status simulate_all(Evaluation& evaluation) const;
  bool has_all_steps(const Evaluation& evaluation) const { return evaluation.ns.size() == steps_.size(); }
  // Whether no step takes too long, and the mean is at most `max`.
  bool wins(const std::vector<double>& ratios, double max) const;
  // Times of the evaluation's steps by those of another, "1 request 1.000, 16 mixed 0.871".
  std::string figures(const Evaluation& evaluation, const Evaluation& by) const;

 private:
  Result<TaskProgram> events(const Settings& settings) const;
  Status simulate_steps(Evaluation& evaluation, size_t count) const;

  const TaskProgram program_;
  const Machine& machine_;
  const SearchOptions& options_;
  const std::vector<SampleStep> steps_;
};

}  // namespace mkc
