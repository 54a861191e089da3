#include "tests/attack/schedules/bases.h"

#include <fmt/format.h>

#include <vector>

#include "ir/verify.h"
#include "scheduler/prove.h"
#include "tools/passes.h"

namespace mkc::attack {
namespace {

template <class T>
T any_of(Rng& rng, std::vector<T> values) {
  return rng.pick(values);
}

// Settings that few mutants need: placements and parts of kinds of grids.
void draw_rules(CompileRequest& request, Rng& rng) {
  for (const char* grids : {"l*.attend", "l*.down", "l*.o", "l*.q", "l*.gate_up", "embed", "l*.append"}) {
    if (!rng.one_in(6)) continue;
    const auto kind =
        any_of<PlacementKind>(rng, {PlacementKind::kRange, PlacementKind::kQueue, PlacementKind::kReady});
    request.placements.push_back({grids, kind, {}});
  }
  for (const char* grids : {"l*.down", "l*.o"})
    if (rng.one_in(4)) request.splits.push_back({grids, any_of<int64_t>(rng, {2, 4, 8}), {}});
}

ModelRequest draw_request(Models models, Rng& rng) {
  const std::string root = MKC_SOURCE_DIR;
  ModelRequest request;
  ModelOptions& o = request.options;
  if (models == Models::kFixtures) {
    request.model = root + "/tests/fixtures/models/" +
                    any_of<std::string>(rng, {"llama", "llama_f32", "mistral", "mistral_window_f32",
                                              "mixtral", "qwen2", "qwen3", "qwen3_moe", "qwen3_moe_f32"});
    o.workers = rng.between(1, 8);
    o.context = any_of<int64_t>(rng, {128, 512, 4096});
    o.max_tokens = any_of<int64_t>(rng, {1, 2, 4, 8, 16, 16, 17, 32, 33, 48, 96, 256});
    o.max_requests = std::min(*o.max_tokens, any_of<int64_t>(rng, {1, 2, 4, 8, 16, 64}));
  } else {
    request.model =
        root + "/tools/bench/configs/" +
        any_of<std::string>(rng, {"llama-3.1-8b", "llama-3.2-1b", "qwen3-0.6b", "qwen3-30b-a3b", "qwen3-8b"});
    o.context = any_of<int64_t>(rng, {4096, 131072});
    o.max_tokens = any_of<int64_t>(rng, {1, 16, 64, 256});
    o.max_requests = std::min(*o.max_tokens, any_of<int64_t>(rng, {1, 16, 64}));
  }
  o.target = any_of<std::string>(rng, {"sm_90a", "sm_90a", "sm_80", "emulator"});
  if (models == Models::kFixtures && rng.one_in(3)) o.ring = 4;
  if (rng.one_in(4)) o.wide_from = rng.between(33, 65);
  if (rng.one_in(4)) o.kv_dtype = DType::e4m3;
  o.scheduler =
      any_of<Scheduler>(rng, {Scheduler::kStatic, Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto});
  request.keep_activations = rng.one_in(8);
  return request;
}

}  // namespace

Result<Base> draw_base(Models models, Rng& rng) {
  const ModelRequest request = draw_request(models, rng);
  Result<Compilation> opened = open_model(request, models == Models::kFixtures);
  if (!opened.ok()) return opened.error();
  Compilation c = std::move(opened.value());
  if (models == Models::kFixtures && rng.one_in(2)) c.machine.task_ns = 1e6;  // events of many cells
  if (models == Models::kFixtures && rng.one_in(2)) draw_rules(c.request, rng);
  if (Status status = run_passes(c, "place"); !status.ok()) return status.error();
  const ModelOptions& o = request.options;
  std::string what = fmt::format("{} on {}, {} tokens, {} requests, context {}, {}",
                                 request.model.substr(request.model.rfind('/') + 1), *o.target, *o.max_tokens,
                                 *o.max_requests, *o.context, scheduler_name(*o.scheduler));
  return Base{std::move(what), c.schedule()};
}

bool is_accepted(const Schedule& schedule, std::string* why) {
  if (const std::vector<Error> errors = verify(schedule); !errors.empty()) {
    if (why) *why = errors.front().message;
    return false;
  }
  const Result<ProofReport> report = prove(schedule);
  if (!report.ok() && why) *why = report.error().message;
  return report.ok();
}

}  // namespace mkc::attack
