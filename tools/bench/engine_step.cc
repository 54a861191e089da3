// This benchmark times the engine's part of a step: the plan, the batch, and the handling of sampled tokens.
// The model samples a token for each request and does nothing else.
//
// Usage: engine_step [options of Google Benchmark]
#include <benchmark/benchmark.h>

#include "runtime/engine/engine.h"

namespace mkrt {
namespace {

constexpr uint32_t kRequests = 64, kContext = 4096, kSteps = 2000;

// Constant is a model that samples the token 7.
class Constant final : public Stepper {
 public:
  BatchLimits limits() const override {
    constexpr uint32_t page_size = 16, context = kContext + kSteps;
    return {.max_tokens = 8192,
            .max_requests = kRequests,
            .context = context,
            .vocab = 1000,
            .page_size = page_size,
            .pages = kRequests * context / page_size};
  }
  Status step(const Batch& batch, StepResult& result) override {
    result.begin.assign(1, 0);
    result.ids.clear();
    result.finite.clear();
    result.steps = 1;
    for (const Samples& samples : batch.samples) {
      if (samples.limit > 0) result.ids.push_back(7);
      result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
      result.finite.push_back(samples.limit > 0 ? 1 : 0);
    }
    return {};
  }
};

Request request(int32_t first, uint32_t tokens, uint32_t max_new_tokens) {
  Request r;
  r.prompt.assign(tokens, 3);
  r.prompt[0] = first;
  r.max_new_tokens = max_new_tokens;
  return r;
}

// Submits `count` requests and feeds their prompts. Contexts are kContext in the middle of kSteps steps.
void fill(Engine& engine, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    engine.submit(request(static_cast<int32_t>(i), kContext - kSteps / 2, kSteps + 100));
  while (engine.stats().running < count) (void)engine.step();
  for (int step = 0; step < 40; ++step) (void)engine.step();  // the last chunks
}

// Measures a step of kRequests decodes.
void decode(benchmark::State& state) {
  Constant model;
  Engine engine = Engine::open(model, {.prefix_cache = state.range(0) != 0}).value();
  fill(engine, kRequests);
  const uint64_t rows = engine.stats().rows;
  for (auto _ : state) (void)engine.step();
  state.counters["rows"] = static_cast<double>(engine.stats().rows - rows) / kSteps;
}

// Measures a step of kRequests - 1 decodes and a prompt of kContext tokens, which the prefix cache has.
void admit(benchmark::State& state) {
  Constant model;
  Engine engine = Engine::open(model, {.prefix_cache = true}).value();
  fill(engine, kRequests - 1);
  const Request prompt = request(500, kContext, 1);
  engine.submit(prompt);
  (void)engine.step();
  for (auto _ : state) {
    engine.submit(prompt);
    (void)engine.step();
    benchmark::DoNotOptimize(engine.take_outcomes());
  }
  state.counters["cached"] = static_cast<double>(engine.stats().prefix_hits) / kSteps;
}

}  // namespace
}  // namespace mkrt

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("decode", mkrt::decode)
      ->ArgName("prefix_cache")
      ->Arg(0)
      ->Arg(1)
      ->Iterations(mkrt::kSteps)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("admit", mkrt::admit)->Iterations(mkrt::kSteps)->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
