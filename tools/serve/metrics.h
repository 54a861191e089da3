// Counters of the server are Prometheus text, with the names of vLLM and the prefix mkc_.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace mkc {

// Histogram counts values by upper bounds, which rise.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}
  void add(double value, uint64_t times = 1);
  // Appends the samples of a histogram. `labels` is a list without braces, or "".
  void print(const std::string& name, const std::string& help, const std::string& labels,
             std::string& to) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // values at most bounds_[i], and above the bound before
  uint64_t count_ = 0;
  double sum_ = 0;
};

struct Metrics {
  Metrics();

  mkrt::EngineStats engine;  // of the last step
  uint64_t prompt_tokens = 0, generation_tokens = 0;
  std::map<std::string, uint64_t> finished;  // by reason: stop, length, abort, error
  Histogram time_to_first_token, inter_token_latency, request_latency;  // seconds
};

// Returns the text of /metrics, in Prometheus' text format 0.0.4.
std::string metrics_text(const Metrics& metrics, const std::string& model_name);

}  // namespace mkc
