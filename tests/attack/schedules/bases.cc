#include "tests/attack/schedules/bases.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/passes.h"

namespace mkc::attack {
namespace {

template <class T>
T any_of(Rng& rng, std::vector<T> values) {
  return rng.pick(values);
}

// A small model is a folder with the config.json of a fixture's family in other sizes. Weights are missing,
// as no pass reads them.
class SmallModel {
 public:
  explicit SmallModel(Rng& rng) {
    const std::string family =
        any_of<std::string>(rng, {"gpt_oss", "llama", "llama_f32", "mistral", "mistral_window_f32", "mixtral",
                                  "qwen2", "qwen3", "qwen3_moe", "qwen3_moe_f32"});
    path =
        fmt::format("{}/mkc-attack-{}-{}", std::filesystem::temp_directory_path().string(), getpid(), family);
    std::ifstream in(std::string(MKC_SOURCE_DIR) + "/tests/fixtures/models/" + family + "/config.json");
    nlohmann::ordered_json config = nlohmann::ordered_json::parse(in);
    const int64_t heads = any_of<int64_t>(rng, {2, 4, 6, 8}), h = any_of<int64_t>(rng, {8, 10, 16, 32, 64});
    const int64_t group = any_of<int64_t>(rng, {1, 2, heads});
    config["num_attention_heads"] = heads;
    config["num_key_value_heads"] = heads / group;
    config["hidden_size"] = heads * h;
    if (config.contains("head_dim")) config["head_dim"] = h;
    if (!config.contains("layer_types")) config["num_hidden_layers"] = rng.between(1, 3);
    config["intermediate_size"] = any_of<int64_t>(rng, {24, 40, 96, 256});
    config["vocab_size"] = any_of<int64_t>(rng, {40, 80, 100, 160});
    config["max_position_embeddings"] = 16384;
    if (config.contains("sliding_window") && config["sliding_window"].is_number())
      config["sliding_window"] = any_of<int64_t>(rng, {5, 100, 256, 600, 3000});
    std::filesystem::create_directories(path);
    std::ofstream(path + "/config.json") << config.dump(2);
  }
  ~SmallModel() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  SmallModel(const SmallModel&) = delete;
  std::string path;
};

// Adds placements and splits of some grids at random. Few mutants need them.
void draw_rules(CompileRequest& request, Rng& rng) {
  for (const char* grids : {"l*.attend", "l*.down", "l*.o", "l*.q", "l*.gate_up", "embed", "l*.append"}) {
    if (!rng.one_in(6)) continue;
    const auto kind =
        any_of<PlacementKind>(rng, {PlacementKind::kRange, PlacementKind::kQueue, PlacementKind::kReady});
    request.placements.push_back({grids, kind, {}});
  }
  for (const char* grids : {"l*.down", "l*.o"})
    if (rng.one_in(5)) request.splits.push_back({grids, any_of<int64_t>(rng, {2, 4, 8}), {}});
}

ModelRequest draw_request(Models models, const std::string& small, Rng& rng) {
  const std::string root = MKC_SOURCE_DIR;
  ModelRequest request;
  ModelOptions& o = request.options;
  if (models == Models::kFixtures) {
    request.model = small;
    o.workers = rng.between(1, 8);
    o.context = any_of<int64_t>(rng, {64, 128, 512, 4096, 16384});
    o.max_tokens = any_of<int64_t>(rng, {1, 2, 4, 8, 16, 16, 17, 32, 33, 48, 96, 256});
    o.max_requests = std::min(*o.max_tokens, any_of<int64_t>(rng, {1, 2, 4, 8, 16, 64}));
  } else {
    request.model = root + "/tools/bench/configs/" +
                    any_of<std::string>(rng, {"llama-3.1-8b", "llama-3.2-1b", "qwen3-0.6b", "qwen3-30b-a3b",
                                              "qwen3-8b", "qwen3-8b-fp8-block"});
    o.context = any_of<int64_t>(rng, {4096, 40960});
    o.max_tokens = any_of<int64_t>(rng, {1, 16, 64, 256});
    o.max_requests = std::min(*o.max_tokens, any_of<int64_t>(rng, {1, 16, 64}));
  }
  o.max_tokens = std::min(*o.max_tokens, *o.max_requests * *o.context);
  o.target = any_of<std::string>(rng, {"sm_90a", "sm_90a", "sm_80", "emulator"});
  if (models == Models::kFixtures && rng.one_in(3)) o.ring = 4;
  if (rng.one_in(4)) o.wgmma_from = rng.between(33, 65);
  if (rng.one_in(4)) o.kv_dtype = DType::e4m3;
  o.scheduler =
      any_of<Scheduler>(rng, {Scheduler::kStatic, Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto});
  request.keep_activations = rng.one_in(8);
  return request;
}

}  // namespace

Result<Base> draw_base(Models models, Rng& rng) {
  const SmallModel small(rng);
  const ModelRequest request = draw_request(models, small.path, rng);
  Result<Compilation> opened = open_model(request, false);
  if (!opened.ok()) return opened.error();
  Compilation c = std::move(opened.value());
  if (models == Models::kFixtures && rng.one_in(2)) c.machine.task_ns = 1e6;  // events get many cells
  if (models == Models::kFixtures && rng.one_in(2)) draw_rules(c.request, rng);
  if (Status status = run_passes(c, "place"); !status.ok()) return status.error();
  const ModelOptions& o = request.options;
  std::string what = fmt::format("{} on {}, {} tokens, {} requests, context {}, {}",
                                 request.model.substr(request.model.rfind('/') + 1), *o.target, *o.max_tokens,
                                 *o.max_requests, *o.context, scheduler_name(*o.scheduler));
  return Base{std::move(what), c.schedule()};
}

}  // namespace mkc::attack
