#include "tools/run_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "frontend/json.h"
#include "frontend/source.h"
#include "runtime/base/file.h"
#include "runtime/session/kv_cache.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/room.h"
#include "tools/run_batch.h"

namespace mkc {
namespace {

// Checks that the cache's pages fit in memory together with weights and workspace. The pages of a single
// prompt are not counted, because its context needs far less.
Status check_caches(const RunArguments& a, const Loaded& loaded, const mkrt::CacheOptions& cache) {
  const mkrt::Manifest& m = loaded.artefact.manifest;
  const std::string fault =
      why_no_room_on(*loaded.device,
                     {m.weight_bytes, m.workspace_bytes, cache.page_size * mkrt::position_bytes(m),
                      cache.pages, keeps_weights(a)},
                     mkrt::container_limits());
  return fault.empty() ? Status() : Status(Error{"--pages: error: " + fault});
}

// Returns where packed weights are kept: beside the cache of compiled code, for the processor alone.
mkrt::KeptFolder kept_folder(const RunArguments& a, const Loaded& loaded) {
  if (!keeps_weights(a) || loaded.device->name() != "cpu") return {};
  mkrt::KeptFolder folder{default_cache().folder + "/weights"};
  if (a.kept_weights_gb) folder.max_bytes = *a.kept_weights_gb * 1'000'000'000;
  return folder;
}

// Prints warnings of kept weights and of tensors that hold values that are not finite. A terminal also sees
// how the weights came.
void print_weights(const mkrt::WeightsReport& weights, const std::string& device) {
  for (const std::string& warning : weights.warnings) print_err("{}\n", warning);
  for (const mkrt::FaultyTensor& t : weights.faulty) print_err("{}\n", warning_of(t));
  if (!isatty(STDERR_FILENO)) return;
  const std::string where =
      weights.file.empty() ? "" : fmt::format(", {} {}", weights.mapped ? "from" : "kept in", weights.file);
  print_err("{}: weights {} in {:.2f} s{}\n", device, weights.mapped ? "mapped" : "packed", weights.seconds,
            where);
}

}  // namespace

Status find_models(RunArguments& a) {
  for (std::string* model : {&a.request.model, &a.checkpoint})
    if (!model->empty() && !is_artefact(*model)) {
      MKC_TRY(found, find_model(*model));
      *model = found;
    }
  return {};
}

Result<std::string> checkpoint_directory(const RunArguments& a) {
  if (is_artefact(a.request.model)) return a.checkpoint;
  const Result<CompileRequest> request = read_request(a.request.model, a.request.options);
  if (!request.ok()) return request.error();
  return request.value().checkpoint;
}

Result<GenerationDefaults> read_defaults(const std::string& directory) {
  MKC_TRY(source, read_source(directory + "/config.json"));
  MKC_TRY(config, parse_json(std::move(source)));
  Result<GenerationDefaults> defaults = read_generation(directory, config);
  if (defaults.ok() && !defaults.value().unread.empty())
    print_err("{}: warning: not read are {}: tokens may differ from those of transformers\n",
              defaults.value().settings_path, fmt::join(defaults.value().unread, ", "));
  return defaults;
}

Result<std::optional<mkrt::Tokenizer>> find_tokenizer(const std::string& directory, const std::string& text) {
  const std::string path = directory + "/tokenizer.json";
  if (mkrt::is_absent(path)) {
    if (text.empty()) return std::optional<mkrt::Tokenizer>();
    std::error_code ignored;
    const bool has_model = std::filesystem::exists(directory + "/tokenizer.model", ignored);
    return Error{fmt::format("{}: error: has no tokenizer.json{}, expected one for {}", directory,
                             has_model ? " but a tokenizer.model, which is not read" : "", text)};
  }
  mkrt::Result<mkrt::Tokenizer> loaded = mkrt::load_checkpoint_tokenizer(directory);
  if (!loaded.ok()) return loaded.error();
  return std::optional(std::move(loaded.value()));
}

Result<mkrt::Session> open_session(const RunArguments& a, const Loaded& loaded, uint64_t requests) {
  mkrt::SessionOptions options;
  options.timeout_ns = a.timeout_ms * 1'000'000;
  options.seal = a.seal;
  options.kept_weights = kept_folder(a, loaded);
  options.find_faulty = true;
  if (requests > 0) {
    options.cache.page_size = a.page_size;
    options.cache.pages = a.pages ? a.pages : pages_of_batch(loaded.artefact.manifest, a.page_size, requests);
  }
  MKC_TRY_STATUS(check_caches(a, loaded, options.cache));
  ProgressLine progress;
  options.on_packing = [&](uint64_t done, uint64_t all) {
    progress.count("packing weights", done / kMega, all / kMega, "MB");
  };
  Result<mkrt::Session> session =
      mkrt::Session::open(loaded.artefact, loaded.checkpoint, loaded.config_hash, *loaded.device, options);
  progress.clear();
  if (session.ok()) print_weights(session.value().weights(), loaded.device->name());
  return session;
}

}  // namespace mkc
