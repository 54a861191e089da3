// What to compile: a checkpoint directory or a model.yaml, resolved against its family and its config.json.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "frontend/family.h"
#include "ir/schedule.h"

namespace mkc {

// Where a model.yaml gives a setting, by its key: "workers".
using SettingPlaces = std::map<std::string, Loc>;

// A setting that is out of bounds: at its place in the model.yaml, else as the flag that gave it.
Error setting_error(const SettingPlaces& places, const std::string& key, const std::string& flag,
                    int64_t found, const std::string& expected);

// What a model.yaml or the command line may set; unset members take the defaults named here.
struct ModelOptions {
  std::optional<std::string> target;      // default "sm_90a"
  std::optional<int64_t> max_tokens;      // per step; default 64
  std::optional<int64_t> max_requests;    // per step; default 16
  std::optional<int64_t> context;         // positions; default min(the model's maximum, 4096)
  std::optional<DType> kv_dtype;          // default: the weights' dtype
  std::optional<bool> batch_invariant;    // default false: see CompileRequest
  std::optional<int64_t> wgmma_from;      // default 65, or what -O3 finds: see CompileRequest
  std::optional<int64_t> ring;            // stages; default: as many as fit, or what -O3 finds
  std::optional<int64_t> workers;         // default: as many as the target has
  std::optional<Scheduler> scheduler;     // default auto
  std::vector<PlacementRule> placements;  // of a model.yaml
  std::vector<SplitRule> splits;          // likewise
  std::optional<std::string> family;      // path of a family file; default: matched by config.json
  std::optional<std::string> models_dir;  // folder of family files that go before the built-in ones
  SettingPlaces places;                   // of what a model.yaml gives and the command line does not
};

struct CompileRequest {
  std::string checkpoint;  // directory of config.json and, where weights are needed, of the safetensors
  Document config;
  Family family;
  std::string target;
  int64_t max_tokens = 0;
  int64_t max_requests = 0;
  int64_t context = 0;
  std::optional<DType> kv_dtype;
  bool batch_invariant = false;  // a token's bits never depend on how many others are in its step
  std::optional<int64_t>
      wgmma_from;               // tokens from which on products go by warpgroups, unless batch_invariant
  std::optional<int64_t> ring;  // stages
  std::optional<int64_t> workers;
  Scheduler scheduler = Scheduler::kAuto;
  std::vector<PlacementRule> placements;
  std::vector<SplitRule> splits;
  SettingPlaces places;  // of what a model.yaml has decided
};

// `path`: a checkpoint directory, or a model.yaml whose `checkpoint` is relative to it. `overrides` win over
// the file. Errors: unreadable files, unknown keys, values out of range, no family for the model, and
// whatever the family demands of config.json.
Result<CompileRequest> read_request(const std::string& path, const ModelOptions& overrides = {});

// The request as a model.yaml that gives the same request again, with the bound parameters as comments.
std::string resolved_yaml(const CompileRequest& request);

// Its `schedule`: "{batch_invariant: false, scheduler: static, split: {"l*.down": 2}}".
std::string schedule_yaml(const CompileRequest& request);

// The parameters of the request's family, with `context` and `max_tokens`. Refers to `request`.
Result<Scope> request_scope(const CompileRequest& request);

}  // namespace mkc
