#include "tools/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkc {
namespace {

// vLLM's bounds, with smaller ones for small models.
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                  1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kInterToken[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                                  0.4,    0.5,   0.75,   1,     2.5,  5,     7.5,  10,    20,  40,   80};
constexpr double kRequest[] = {0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5, 5,    10,
                               15,   20,   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680};

void print_head(const std::string& name, const std::string& help, const char* type, std::string& to) {
  to += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

// Returns a label's value with the escapes of the text format.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

}  // namespace

void Histogram::add(double value, uint64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  if (at != bounds_.end()) counts_[static_cast<size_t>(at - bounds_.begin())] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::print(const std::string& name, const std::string& help, const std::string& labels,
                      std::string& to) const {
  print_head(name, help, "histogram", to);
  uint64_t up_to = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    up_to += counts_[i];
    to += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], up_to);
  }
  to += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                    labels, count_, sum_);
}

Metrics::Metrics()
    : time_to_first_token(kFirstToken), inter_token_latency(kInterToken), request_latency(kRequest) {
  for (const char* reason : {"stop", "length", "abort", "error"}) finished[reason] = 0;
}

std::string metrics_text(const Metrics& m, const std::string& model_name) {
  std::string text;
  const std::string labels = fmt::format("model_name=\"{}\"", escaped(model_name));
  const auto print = [&](const char* name, const char* help, const char* type, auto value) {
    print_head(name, help, type, text);
    text += fmt::format("{}{{{}}} {}\n", name, labels, value);
  };
  const double usage =
      m.engine.pages > 0 ? static_cast<double>(m.engine.pages_used) / static_cast<double>(m.engine.pages) : 0;
  print("mkc_num_requests_running", "Requests that take part in every step.", "gauge", m.engine.running);
  print("mkc_num_requests_waiting", "Requests that wait for rows, places or pages.", "gauge",
        m.engine.waiting);
  print("mkc_kv_cache_usage_perc", "Share of the cache's pages in use; 1 is all of them.", "gauge", usage);
  print("mkc_num_preemptions_total", "Requests that gave up their pages.", "counter", m.engine.preemptions);
  print("mkc_device_restarts_total", "Times that another process took over from one that failed.", "counter",
        m.engine.recoveries);
  print("mkc_prefix_cache_queries_total", "Tokens of prompts that were looked up in the prefix cache.",
        "counter", m.engine.prefix_queries);
  print("mkc_prefix_cache_hits_total", "Tokens of prompts that the prefix cache had.", "counter",
        m.engine.prefix_hits);
  print("mkc_prompt_tokens_total", "Tokens of prompts.", "counter", m.prompt_tokens);
  print("mkc_generation_tokens_total", "Tokens sampled.", "counter", m.generation_tokens);
  print("mkc_engine_steps_total", "Steps of the engine.", "counter", m.engine.steps);
  print_head("mkc_request_success_total", "Requests that ended, by reason.", "counter", text);
  for (const auto& [reason, count] : m.finished)
    text += fmt::format("mkc_request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels, reason, count);
  m.time_to_first_token.print("mkc_time_to_first_token_seconds", "From a request to its first token.", labels,
                              text);
  m.inter_token_latency.print("mkc_inter_token_latency_seconds", "Between tokens of a request.", labels,
                              text);
  m.request_latency.print("mkc_e2e_request_latency_seconds", "From a request to its last token.", labels,
                          text);
  return text;
}

}  // namespace mkc
