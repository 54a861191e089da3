#include "tools/run_batch.h"

#include <algorithm>
#include <chrono>

#include "runtime/abi/symbols.h"
#include "runtime/engine/session_stepper.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/seconds.h"

namespace mkc {

uint32_t pages_of_batch(const mkrt::Manifest& manifest, uint32_t page_size, uint64_t requests) {
  uint64_t context = 0;
  for (const mkrt::ManifestSymbol& s : manifest.symbols) {
    if (s.name == mkrt::kRequestsSymbol) requests = std::min(requests, static_cast<uint64_t>(s.hi));
    if (s.name == mkrt::kKvLenSymbol) context = static_cast<uint64_t>(s.hi);
  }
  return static_cast<uint32_t>(requests * mkrt::pages_for(context, page_size));
}

Status run_batch(BatchRun& batch, mkrt::Session& session) {
  mkrt::SessionStepper stepper(session);
  mkrt::EngineOptions options;
  options.stop_ids = batch.stop_ids;
  options.preemption = batch.preemption;
  options.prefix_cache = batch.prefix_cache;
  options.max_rows_beside_decodes = batch.max_rows_beside_decodes;
  options.steps_per_launch = batch.steps_per_launch;
  Result<mkrt::Engine> engine = mkrt::Engine::open(stepper, std::move(options));
  if (!engine.ok()) return engine.error();
  const auto begin = std::chrono::steady_clock::now();
  Status ended = answer_batch(batch.source, engine.value(), batch.options, [](const std::string& object) {
    const std::string line = object + "\n";
    return put_out("-", std::as_bytes(std::span(line)), true);
  });
  const double seconds = seconds_since(begin);
  const mkrt::EngineStats stats = engine.value().stats();
  if (!batch.device.empty() && batch.source.taken() > 0)
    print_err(
        "{}: {} requests, {} steps of {} rows in {} launches and {:.2f} s, {} preemptions, {} of {} "
        "prompt tokens cached\n",
        batch.device, batch.source.taken(), stats.steps, stats.rows, stats.launches, seconds,
        stats.preemptions, stats.prefix_hits, stats.prefix_queries);
  return ended;
}

}  // namespace mkc
