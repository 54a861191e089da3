// A compile request is a checkpoint directory or a model.yaml, resolved against its family and config.json.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "frontend/family.h"
#include "ir/schedule.h"

namespace mkc {

constexpr const char* kDefaultTarget = "sm_90a";

// SettingPlaces has the places of a model.yaml's settings, by key, such as "workers".
using SettingPlaces = std::map<std::string, Loc>;

// Returns the error of a setting: `in_file` at its place in the model.yaml if `places` has the key, and else
// `of_flag` as it stands.
Error setting_error(const SettingPlaces& places, const std::string& key, const std::string& in_file,
                    const std::string& of_flag);
// Returns that error for a number out of bounds. `flag` is the one that gives the setting.
Error setting_error(const SettingPlaces& places, const std::string& key, const std::string& flag,
                    int64_t found, const std::string& expected);

// ModelOptions holds what a model.yaml or the command line may set. Unset members take the defaults named
// here.
struct ModelOptions {
  std::optional<std::string> target;           // default kDefaultTarget
  std::optional<int64_t> max_tokens;           // per step; default 64
  std::optional<int64_t> max_requests;         // per step; default 16
  int64_t step_tokens = 0, step_requests = 0;  // a step of so many raises the defaults of these two limits
  std::optional<int64_t> context;              // positions; default min(the model's maximum, 4096)
  std::optional<DType> kv_dtype;               // default: the weights' dtype
  std::optional<bool> batch_invariant;         // default false: see CompileRequest
  std::optional<int64_t> wgmma_from;           // see CompileRequest
  std::optional<Activations> activations;      // default auto: see CompileRequest
  std::optional<int64_t> ring;                 // stages; default: as many as fit, or what -O3 finds
  std::optional<int64_t> workers;              // default: as many as the target has
  std::optional<Scheduler> scheduler;          // default auto
  std::vector<PlacementRule> placements;       // from a model.yaml only
  std::vector<SplitRule> splits;               // from a model.yaml only
  std::optional<std::string> family;           // path of a family file; default: matched by config.json
  std::optional<std::string> models_dir;       // folder of family files that go before the built-in ones
  SettingPlaces places;  // settings that a model.yaml gives and the command line does not
};

struct CompileRequest {
  std::string checkpoint;  // directory of config.json and, if weights are needed, of the safetensors
  Document config;
  Family family;
  std::string target;
  int64_t max_tokens = 0;
  int64_t max_requests = 0;
  int64_t context = 0;
  std::optional<DType> kv_dtype;
  bool batch_invariant = false;  // a token's bits never depend on how many others are in its step
  std::optional<int64_t>
      wgmma_from;  // number of tokens from which products run on warpgroups, unless batch_invariant
  // kAuto takes 8-bit floats if the checkpoint is made for them, the machine has instructions for them, and
  // simulated steps are shorter. batch_invariant rules them out.
  Activations activations = Activations::kAuto;
  std::optional<int64_t> ring;  // stages
  std::optional<int64_t> workers;
  Scheduler scheduler = Scheduler::kAuto;
  std::vector<PlacementRule> placements;
  std::vector<SplitRule> splits;
  SettingPlaces places;  // settings that the model.yaml decided
};

// Reads the value of `schedule` in a model.yaml into the options that it names. Errors: unknown keys, values
// of the wrong type, and values out of range whose range does not depend on the machine.
Status read_schedule(const Document& document, const Node& schedule, ModelOptions& options);

// Gives the request what a `schedule` may set, with defaults for unset options.
void set_schedule(CompileRequest& request, const ModelOptions& options);

// Returns the request for `path`: a checkpoint directory, or a model.yaml whose `checkpoint` is relative to
// it. `overrides` win over the file.
//
// Errors: unreadable files, unknown keys, values out of range, no family for the model, and whatever the
// family demands of config.json.
Result<CompileRequest> read_request(const std::string& path, const ModelOptions& overrides = {});

// Returns the text of a model.yaml that gives the same request again. Its comments hold the bound parameters.
// Relative paths in it hold if the file is stored in the current directory. Bytes of names that are not UTF-8
// are in the text, and no reader takes them.
std::string resolved_yaml(const CompileRequest& request);

// Returns the value of `schedule` in that file. Example:
// {batch_invariant: false, scheduler: static, split: {"l*.down": 2}}
std::string schedule_yaml(const CompileRequest& request);

// Returns the parameters of the request's family, with `context` and `max_tokens`. The scope refers to
// `request`. Errors: those of bind_params() and check_requirements().
Result<Scope> request_scope(const CompileRequest& request);

}  // namespace mkc
