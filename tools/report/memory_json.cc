#include "tools/report/memory_json.h"

#include <nlohmann/json.hpp>

#include "codegen/describe.h"
#include "ir/step_symbols.h"
#include "runtime/session/pages.h"
#include "runtime/session/session.h"
#include "scheduler/machine/cost.h"
#include "tools/artefact.h"
#include "tools/room.h"
#include "tools/weight_table.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kPageSize = mkrt::CacheOptions{}.page_size;

ordered_json weights_json(const Schedule& schedule) {
  ordered_json weights = ordered_json::array();
  for (const WeightKind& k : weight_kinds(describe_weights(schedule)))
    weights.push_back({{"weight", k.name},
                       {"alike", k.weights},
                       {"format", k.format},
                       {"shape", k.shape},
                       {"bytes", k.bytes}});
  return weights;
}

// Returns the engines of the target. The emulator, which is no target of code generation, has the plain ones.
Engines engines_of(const Compilation& c) {
  const Result<Target> target = target_of(c);
  return target.ok() ? target.value().engines : Engines{};
}

}  // namespace

uint64_t full_cache_bytes(const Schedule& s) {
  const StepSymbols step = step_symbols(s.program.symbols);
  const auto positions = static_cast<uint64_t>(s.program.symbols[step.kv_len].bounds.hi);
  const auto requests = static_cast<uint64_t>(s.program.symbols[step.requests].bounds.hi);
  return position_bytes(s.program) * requests * mkrt::pages_for(positions, kPageSize) * kPageSize;
}

ordered_json memory_json(const Compilation& c) {
  const Schedule& s = c.schedule();
  const Symbols& symbols = s.program.symbols;
  const StepSymbols step = step_symbols(symbols);
  const auto positions = static_cast<uint64_t>(symbols[step.kv_len].bounds.hi);
  const auto requests = static_cast<uint64_t>(symbols[step.requests].bounds.hi);
  const Engines engines = engines_of(c);
  return {{"weights", weights_json(s)},
          {"weight_bytes", s.weight_bytes},
          {"workspace_bytes", s.workspace_bytes},
          {"position_bytes", position_bytes(s.program)},
          {"positions", positions},
          {"requests", requests},
          {"page_size", kPageSize},
          {"cache_bytes", full_cache_bytes(s)},
          {"device_bytes", c.machine.memory_bytes},
          {"fault", why_no_room(s.weight_bytes, "weights", c.machine.memory_bytes, c.machine.name)},
          {"ring_stages", engines.loader ? s.ring.stages : 0},
          {"stage_bytes", engines.loader ? s.ring.stage_bytes : 0},
          {"shared_bytes", shared_bytes(s, engines)},
          {"device_shared_bytes", c.machine.is_processor() ? 0 : c.machine.shared_bytes}};
}

}  // namespace mkc
