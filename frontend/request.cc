#include "frontend/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "frontend/defaults.h"
#include "frontend/families.h"
#include "frontend/fields.h"
#include "frontend/json.h"
#include "frontend/params.h"
#include "frontend/rope.h"
#include "frontend/source.h"
#include "frontend/yaml.h"
#include "ir/bodies.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

constexpr int64_t kDefaultTokens = 64;
constexpr int64_t kDefaultRequests = 16;
constexpr int64_t kDefaultContext = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 24;  // positions

struct ModelFile {
  std::string checkpoint;
  ModelOptions options;
};

// Returns a path written in `file` as a path from the current directory. Written paths are relative to the
// file.
std::string beside(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

// Reads the integer at `map`.`key` into `out`. A missing key leaves `out` as it is. Bounds are checked later.
Status read_setting(const Document& document, const Node& map, const std::string& key,
                    std::optional<int64_t>& out, SettingPlaces& places) {
  MKC_TRY(node, optional_field(document, map, key, Kind::kInt));
  if (!node) return {};
  places[key] = document.loc(node->place);
  out = node->integer;
  return {};
}

Status read_kv(const Document& document, const Node& kv, ModelOptions& options) {
  MKC_TRY_STATUS(check_keys(document, kv, "kv", {"dtype"}));
  MKC_TRY(node, optional_field(document, kv, "dtype", Kind::kString));
  if (!node || node->string == "weights") return {};
  const Result<DType> dtype = parse_dtype(node->string);
  if (!dtype.ok() || std::ranges::count(kCacheDTypes, dtype.value()) == 0) {
    return document.error(
        node->place, fmt::format("dtype is {}, expected weights, bf16, f16, f32 or e4m3", describe(*node)));
  }
  options.kv_dtype = dtype.value();
  return {};
}

// Returns the choice whose name the node holds. Errors: any other value.
template <class T, size_t N>
Result<T> read_choice(const Document& document, const Node& node, std::string_view what,
                      const std::array<T, N>& choices, const char* (*name)(T)) {
  std::vector<std::string> names;
  for (const T choice : choices) {
    names.emplace_back(name(choice));
    if (node.is(Kind::kString) && node.string == names.back()) return choice;
  }
  return document.error(node.place,
                        fmt::format("{} is {}, expected {}", what, describe(node), fmt::join(names, ", ")));
}

Status read_within(const Document& document, const Node& map, const char* key, int64_t min, int64_t max,
                   std::optional<int64_t>& to) {
  MKC_TRY(node, optional_field(document, map, key, Kind::kInt));
  if (!node) return {};
  if (node->integer < min || node->integer > max)
    return document.error(node->place,
                          fmt::format("{} is {}, expected {} to {}", key, node->integer, min, max));
  to = node->integer;
  return {};
}

Result<ModelFile> read_model_file(const std::string& path) {
  MKC_TRY(source, read_source(path));
  MKC_TRY(document, parse_yaml(std::move(source)));
  const Node& root = document.root;
  const std::string what = "the model file";
  MKC_TRY_STATUS(
      check_keys(document, root, what, {"checkpoint", "family", "target", "limits", "kv", "schedule"}));
  ModelFile file;
  MKC_TRY(checkpoint, required_field(document, root, what, "checkpoint", Kind::kString));
  file.checkpoint = beside(path, checkpoint->string);
  MKC_TRY(family, optional_field(document, root, "family", Kind::kString));
  if (family) file.options.family = beside(path, family->string);
  MKC_TRY(target, optional_field(document, root, "target", Kind::kString));
  if (target) file.options.target = target->string;
  if (const Node* limits = find(root, "limits")) {
    MKC_TRY_STATUS(check_keys(document, *limits, "limits", {"tokens", "requests", "context"}));
    MKC_TRY_STATUS(read_setting(document, *limits, "tokens", file.options.max_tokens, file.options.places));
    MKC_TRY_STATUS(
        read_setting(document, *limits, "requests", file.options.max_requests, file.options.places));
    MKC_TRY_STATUS(read_setting(document, *limits, "context", file.options.context, file.options.places));
  }
  if (const Node* kv = find(root, "kv")) MKC_TRY_STATUS(read_kv(document, *kv, file.options));
  if (const Node* schedule = find(root, "schedule"))
    MKC_TRY_STATUS(read_schedule(document, *schedule, file.options));
  return file;
}

template <class T>
void override_with(std::optional<T>& value, const std::optional<T>& winner) {
  if (winner) value = winner;
}

// Overrides a setting whose place is in `options`. The command line's value has no place.
void override_setting(ModelOptions& options, const char* key, std::optional<int64_t>& value,
                      const std::optional<int64_t>& winner) {
  if (winner) options.places.erase(key);
  override_with(value, winner);
}

// Limits has the range of a setting, and a remark about its greatest value.
struct Limits {
  int64_t min, max;
  std::string remark;
};

Status check_setting(const ModelOptions& options, const char* key, const char* flag, int64_t value,
                     const Limits& limits) {
  if (value >= limits.min && value <= limits.max) return {};
  return setting_error(options.places, key, flag, value,
                       fmt::format("{} to {}{}", limits.min, limits.max, limits.remark));
}

Result<Family> load_family(const Document& config, const ModelOptions& options) {
  if (!options.family) return find_family(config, options.models_dir.value_or(""));
  MKC_TRY(source, read_source(*options.family));
  MKC_TRY(document, parse_yaml(std::move(source)));
  return read_family(std::move(document));
}

// Returns whether the command line gives a setting. The value of a model file has a place.
bool flag_gives(const ModelOptions& options, const char* key, const std::optional<int64_t>& value) {
  return value && !options.places.contains(key);
}

// Returns whether given tokens follow the requests and the context silently. The context of a simulated step
// is no limit. A flag may narrow what a model file says.
bool tokens_follow(const ModelOptions& options) {
  if (options.step_tokens != 0) return true;
  return options.places.contains("tokens") && (flag_gives(options, "requests", options.max_requests) ||
                                               flag_gives(options, "context", options.context));
}

// Returns whether given requests follow the tokens silently. A flag may narrow what a model file says.
bool requests_follow(const ModelOptions& options) {
  return options.places.contains("requests") && flag_gives(options, "tokens", options.max_tokens);
}

Status resolve_limits(const ModelOptions& options, CompileRequest& request) {
  request.max_tokens = options.max_tokens.value_or(std::max(kDefaultTokens, options.step_tokens));
  MKC_TRY_STATUS(
      check_setting(options, "tokens", "--max-tokens", request.max_tokens, {1, kMaxStepTokens, ""}));
  request.max_requests = options.max_requests.value_or(
      std::max(std::min(kDefaultRequests, request.max_tokens), options.step_requests));
  MKC_TRY_STATUS(
      check_setting(options, "requests", "--max-requests", request.max_requests, {1, kMaxStepRequests, ""}));
  if (options.max_requests && !requests_follow(options))
    MKC_TRY_STATUS(check_setting(options, "requests", "--max-requests", request.max_requests,
                                 {1, request.max_tokens, ", the tokens of a step (--max-tokens)"}));
  request.max_requests = std::min(request.max_requests, request.max_tokens);
  MKC_TRY(scope, bind_params(request.family, request.config));
  const Formula& max_context = request.family.max_context;
  MKC_TRY(made_for, evaluate_int(max_context, scope));
  if (made_for < 1) {
    MKC_TRY(value, evaluate(max_context, scope));
    return value_error(scope, value, max_context.place, "max_context",
                       fmt::format("is {}, expected at least 1", made_for));
  }
  int64_t model_maximum = made_for;
  if (request.family.rope) {
    MKC_TRY(stretched, stretched_context(*request.family.rope, scope));
    model_maximum = std::max(made_for, stretched);
  }
  const bool by_model = model_maximum <= kMaxContext;
  const int64_t max = by_model ? model_maximum : kMaxContext;
  request.context = options.context.value_or(std::min(max, kDefaultContext));
  MKC_TRY_STATUS(check_setting(options, "context", "--context", request.context,
                               {1, max, by_model ? ", the model's maximum" : ""}));
  // A step of one request holds at most `context` tokens. A step has at least one token for each request.
  const int64_t positions = request.max_requests * request.context;
  if (options.max_tokens && !tokens_follow(options))
    MKC_TRY_STATUS(check_setting(
        options, "tokens", "--max-tokens", request.max_tokens,
        {1, positions,
         fmt::format(", {} times {}",
                     options.max_requests
                         ? fmt::format("--max-requests {}", request.max_requests)
                         : fmt::format("the default of --max-requests, {},", request.max_requests),
                     options.context ? fmt::format("--context {}", request.context)
                                     : fmt::format("the default of --context, {}", request.context))}));
  request.max_tokens = std::min(request.max_tokens, positions);
  request.max_requests = std::min(request.max_requests, request.max_tokens);
  MKC_TRY_STATUS(request_scope(request));
  return {};
}

// Returns a double-quoted YAML scalar.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (c == '"' || c == '\\') out += '\\';
    out += control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

Error setting_error(const SettingPlaces& places, const std::string& key, const std::string& in_file,
                    const std::string& of_flag) {
  const auto place = places.find(key);
  if (place == places.end()) return Error{of_flag};
  const Result<Source> source = read_source(place->second.file);  // for the line at fault
  return error_at(place->second, in_file, source.ok() ? source.value().text : "");
}

Error setting_error(const SettingPlaces& places, const std::string& key, const std::string& flag,
                    int64_t found, const std::string& expected) {
  return setting_error(places, key, fmt::format("{} is {}, expected {}", key, found, expected),
                       fmt::format("{}: error: found {}, expected {}", flag, found, expected));
}

Status read_schedule(const Document& document, const Node& schedule, ModelOptions& options) {
  MKC_TRY_STATUS(check_keys(document, schedule, "schedule",
                            {"workers", "batch_invariant", "wgmma_from", "activations", "ring", "scheduler",
                             "placement", "split"}));
  MKC_TRY(invariant, optional_field(document, schedule, "batch_invariant", Kind::kBool));
  if (invariant) options.batch_invariant = invariant->boolean;
  MKC_TRY_STATUS(
      read_within(document, schedule, "wgmma_from", kMinWgmmaFrom, kDefaultWgmmaFrom, options.wgmma_from));
  if (options.wgmma_from) options.places["wgmma_from"] = document.loc(find(schedule, "wgmma_from")->place);
  MKC_TRY_STATUS(read_setting(document, schedule, "ring", options.ring, options.places));
  MKC_TRY_STATUS(read_setting(document, schedule, "workers", options.workers, options.places));
  if (const Node* node = find(schedule, "activations")) {
    MKC_TRY(activations, read_choice(document, *node, "activations", kActivations, activations_name));
    options.activations = activations;
    options.places["activations"] = document.loc(node->place);
  }
  if (const Node* node = find(schedule, "scheduler")) {
    MKC_TRY(scheduler, read_choice(document, *node, "scheduler", kSchedulers, scheduler_name));
    options.scheduler = scheduler;
  }
  MKC_TRY(rules, optional_field(document, schedule, "placement", Kind::kMap));
  for (size_t i = 0; rules && i < rules->keys.size(); ++i) {
    MKC_TRY(kind, read_choice(document, rules->items[i], "the placement of " + rules->keys[i],
                              kPlacementKinds, placement_name));
    options.placements.push_back({rules->keys[i], kind, document.loc(rules->key_places[i])});
  }
  MKC_TRY(splits, optional_field(document, schedule, "split", Kind::kMap));
  for (size_t i = 0; splits && i < splits->keys.size(); ++i) {
    const Node& parts = splits->items[i];
    if (!parts.is(Kind::kInt) || parts.integer < 1)
      return document.error(parts.place, fmt::format("the parts of {} are {}, expected an int of at least 1",
                                                     splits->keys[i], describe(parts)));
    options.splits.push_back({splits->keys[i], parts.integer, document.loc(splits->key_places[i])});
  }
  return {};
}

void set_schedule(CompileRequest& request, const ModelOptions& options) {
  request.batch_invariant = options.batch_invariant.value_or(false);
  request.wgmma_from = options.wgmma_from;
  request.activations = options.activations.value_or(Activations::kAuto);
  request.ring = options.ring;
  request.workers = options.workers;
  request.scheduler = options.scheduler.value_or(Scheduler::kAuto);
  request.placements = options.placements;
  request.splits = options.splits;
  request.places = options.places;
}

Result<CompileRequest> read_request(const std::string& path, const ModelOptions& overrides) {
  ModelFile file{path, {}};
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) {
    MKC_TRY(read, read_model_file(path));
    file = std::move(read);
  }
  ModelOptions& options = file.options;
  if (options.wgmma_from && options.batch_invariant.value_or(false) && !overrides.batch_invariant) {
    const std::string fault =
        "wgmma_from is given, but batch_invariant asks for the same bits in steps of fewer tokens";
    return setting_error(options.places, "wgmma_from", fault, fault);
  }
  override_with(options.target, overrides.target);
  override_setting(options, "tokens", options.max_tokens, overrides.max_tokens);
  override_setting(options, "requests", options.max_requests, overrides.max_requests);
  options.step_tokens = overrides.step_tokens;
  options.step_requests = overrides.step_requests;
  override_setting(options, "context", options.context, overrides.context);
  override_with(options.kv_dtype, overrides.kv_dtype);
  override_with(options.batch_invariant, overrides.batch_invariant);
  override_with(options.wgmma_from, overrides.wgmma_from);
  if (overrides.activations) options.places.erase("activations");
  override_with(options.activations, overrides.activations);
  override_setting(options, "ring", options.ring, overrides.ring);
  override_setting(options, "workers", options.workers, overrides.workers);
  override_with(options.scheduler, overrides.scheduler);
  override_with(options.family, overrides.family);
  override_with(options.models_dir, overrides.models_dir);

  CompileRequest request;
  request.checkpoint = file.checkpoint;
  MKC_TRY(config_source, read_source((std::filesystem::path(file.checkpoint) / "config.json").string()));
  MKC_TRY(config, parse_json(std::move(config_source)));
  MKC_TRY(family, load_family(config, options));
  request.family = std::move(family);
  request.config = with_defaults(request.family, std::move(config));
  request.target = options.target.value_or(kDefaultTarget);
  request.kv_dtype = options.kv_dtype;
  set_schedule(request, options);
  MKC_TRY_STATUS(resolve_limits(options, request));
  return request;
}

Result<Scope> request_scope(const CompileRequest& request) {
  MKC_TRY(scope, bind_params(request.family, request.config));
  scope.names["context"] = int_node(request.context);
  scope.names["max_tokens"] = int_node(request.max_tokens);
  MKC_TRY_STATUS(check_requirements(request.family, scope));
  return scope;
}

std::string schedule_yaml(const CompileRequest& request) {
  std::string schedule = fmt::format("batch_invariant: {}", request.batch_invariant);
  if (request.wgmma_from && !request.batch_invariant)
    schedule += fmt::format(", wgmma_from: {}", *request.wgmma_from);
  if (request.activations != Activations::kAuto)
    schedule += fmt::format(", activations: {}", activations_name(request.activations));
  if (request.ring) schedule += fmt::format(", ring: {}", *request.ring);
  if (request.workers) schedule += fmt::format(", workers: {}", *request.workers);
  schedule += fmt::format(", scheduler: {}", scheduler_name(request.scheduler));
  std::vector<std::string> rules;
  for (const PlacementRule& rule : request.placements)
    rules.push_back(fmt::format("{}: {}", quoted(rule.grids), placement_name(rule.kind)));
  if (!rules.empty()) schedule += fmt::format(", placement: {{{}}}", fmt::join(rules, ", "));
  std::vector<std::string> splits;
  for (const SplitRule& rule : request.splits)
    splits.push_back(fmt::format("{}: {}", quoted(rule.grids), rule.split_k));
  if (!splits.empty()) schedule += fmt::format(", split: {{{}}}", fmt::join(splits, ", "));
  return "{" + schedule + "}";
}

std::string resolved_yaml(const CompileRequest& request) {
  const std::string& family = request.family.document.source.path;
  std::string out = fmt::format("checkpoint: {}\n", quoted(request.checkpoint));
  out += fmt::format("{}: {}\n", is_builtin(request.family) ? "# family" : "family", quoted(family));
  out += fmt::format("target: {}\n", quoted(request.target));
  out += fmt::format("limits: {{tokens: {}, requests: {}, context: {}}}\n", request.max_tokens,
                     request.max_requests, request.context);
  out += fmt::format("kv: {{dtype: {}}}\n", request.kv_dtype ? dtype_name(*request.kv_dtype) : "weights");
  out += fmt::format("schedule: {}\n", schedule_yaml(request));
  const Result<Scope> scope = request_scope(request);
  MKC_ASSERT(scope.ok(), "a resolved request does not bind: " + scope.error().message);
  out += "# parameters\n";
  for (const ParamDecl& param : request.family.params) {
    out += fmt::format("#   {}: {}\n", param.name, describe(scope.value().names.at(param.name)));
  }
  return out;
}

}  // namespace mkc
