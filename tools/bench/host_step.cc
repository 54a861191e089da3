// This benchmark times the host's cost of a step, on a device that runs nothing. The cost covers planning by
// the engine, the check of the batch, writes of the step's memory, and reads of results.
//
// Usage: host_step CUBIN [options of Google Benchmark]
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>

#include "runtime/engine/session_stepper.h"
#include "runtime/session/pages.h"

namespace mkrt {
namespace {

// Nowhere is a device that copies a step's data like a copy to a GPU, and drops it. Reads give zeros.
class Nowhere final : public Device {
 public:
  std::string name() const override { return "nowhere"; }
  Result<uint64_t> allocate(uint64_t) override { return next_ += uint64_t{1} << 40; }
  void release(uint64_t) override {}
  Status write(uint64_t, std::span<const std::byte> from) override {
    step_bytes = from.size();
    if (from.size() <= sizeof(taken_)) std::memcpy(taken_, from.data(), from.size());
    return {};
  }
  Status read(std::span<std::byte> to, uint64_t) override {
    std::memset(to.data(), 0, to.size());
    return {};
  }
  Status clear(uint64_t, uint64_t) override { return {}; }
  Status load(const Artefact&) override { return {}; }
  bool loaded() const override { return false; }
  void unload() override {}
  Status pack(uint64_t) override { return {}; }
  Status launch(uint64_t, uint64_t, uint64_t, uint32_t) override { return {}; }

  uint64_t step_bytes = 0;  // size of the last write

 private:
  uint64_t next_ = 0;
  std::byte taken_[1 << 20];
};

// Measures a decode step of `requests` requests with `context` positions each.
void decode(benchmark::State& state, const Artefact& artefact) {
  const auto requests = static_cast<uint32_t>(state.range(0)),
             context = static_cast<uint32_t>(state.range(1));
  constexpr uint32_t kPageSize = 16;
  const auto pages = static_cast<int32_t>(pages_for(context, kPageSize));
  Nowhere device;
  SessionOptions options;
  options.cache.page_size = kPageSize;
  options.cache.pages = requests * static_cast<uint32_t>(pages);
  const auto no_weights = [](const ManifestWeight&, std::span<std::byte>) { return Status(); };
  Result<Session> session = Session::open(artefact, no_weights, device, options);
  if (!session.ok()) return state.SkipWithError(session.error().message.c_str());

  std::vector<int32_t> tokens(requests, 1), row_begin{0}, page_begin{0}, page_index,
      kv_len(requests, static_cast<int32_t>(context));
  for (uint32_t b = 0; b < requests; ++b) {
    row_begin.push_back(static_cast<int32_t>(b) + 1);
    for (int32_t page = 0; page < pages;
         ++page)  // a request's pages are not contiguous, like those of a server that has run for a while
      page_index.push_back(page * static_cast<int32_t>(requests) + static_cast<int32_t>(b));
    page_begin.push_back(static_cast<int32_t>(page_index.size()));
  }
  const Batch batch{tokens, row_begin, kv_len, {page_begin, page_index}};
  StepResult result;
  for (auto _ : state) {
    if (const Status status = session.value().step(batch, result); !status.ok())
      return state.SkipWithError(status.error().message.c_str());
    benchmark::DoNotOptimize(result);
  }
  state.counters["step_bytes"] = static_cast<double>(device.step_bytes);
}

}  // namespace
}  // namespace mkrt

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: host_step CUBIN [options]\n", stderr), 1;
  const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(argv[1]);
  if (!artefact.ok()) return std::fprintf(stderr, "%s\n", artefact.error().message.c_str()), 1;
  argv[1] = argv[0];
  int left = argc - 1;
  benchmark::RegisterBenchmark("decode", mkrt::decode, artefact.value())
      ->ArgNames({"requests", "context"})
      ->ArgsProduct({{1, 8, 64}, {1024, 4096}})
      ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&left, argv + 1);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
