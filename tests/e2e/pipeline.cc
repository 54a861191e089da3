#include "tests/e2e/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/unit/temp_dir.h"

namespace mkc::test {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result.value());
}

struct Written {
  mkrt::test::TempDir dir;
  explicit Written(const reference::Model& weights) { write_checkpoint(weights, dir.path); }
};

}  // namespace

namespace {

// Returns the target of the environment; null stands for the emulator.
const char* target_asked() {
  return std::getenv("MKC_TEST_DEVICE");
}

}  // namespace

Cache test_cache() {
  return {MKC_BINARY_DIR "/tests/models"};
}

bool on_processor() {
  return target_asked() != nullptr;
}

Model::Model(const reference::Model& weights, const Build& build) : Model(Written(weights).dir.path, build) {}

Model::Model(const std::string& directory, const Build& build) : race_(build.race) {
  ModelRequest request{directory, {}, "", build.mode};
  request.options.target = on_processor() ? target_asked() : "emulator";
  request.options.workers = build.workers;
  request.options.max_tokens = build.max_tokens;
  request.options.max_requests = std::min(build.max_requests, build.max_tokens);
  request.options.context = build.context;
  request.options.batch_invariant = build.batch_invariant;
  request.options.wgmma_from = build.wgmma_from;
  request.options.activations = build.activations;
  request.options.kv_dtype = build.kv_dtype;
  request.options.scheduler = build.scheduler;
  request.without = build.without;
  Compilation c = value_of(open_model(request, true));
  c.request.placements = build.placements;
  c.request.splits = build.splits;
  if (on_processor()) {
    c.quick = build.quick;
    const BuiltCubin object = value_of(build_shared_object(c, {}));
    host_.artefact = value_of(mkrt::read_artefact(object.bytes, directory));
  } else {
    const Status status = run_passes(c);
    if (!status.ok()) FAIL(status.error().message);
    host_ = value_of(build_for_emulator(
        c, {.bulk_copy = build.bulk_copy, .race = build.race, .quick = build.quick, .cache = test_cache()}));
  }
  config_hash_ = host_.artefact.manifest.config_hash;
  checkpoint_ = std::move(*c.checkpoint);
  schedule_ = c.schedule();
}

Opened Model::open(const mkrt::SessionOptions& session, const mkrt::EmulatorDeviceOptions& device) const {
  std::unique_ptr<mkrt::Device> opened = open_device(device);
  mkrt::Session running = open_on(*opened, session);
  return {std::move(opened), std::move(running)};
}

mkrt::Session Model::open_on(mkrt::Device& device, const mkrt::SessionOptions& session) const {
  return value_of(mkrt::Session::open(host_.artefact, checkpoint_, config_hash_, device, session));
}

std::unique_ptr<mkrt::Device> Model::open_device(mkrt::EmulatorDeviceOptions options) const {
  if (on_processor()) return mkrt::open_processor();
  options.race = race_;
  return mkrt::open_emulator(host_.kernel.entries, options, [this](uint32_t site) {
    return site < host_.kernel.sites.size() ? host_.kernel.sites[site] : std::string();
  });
}

Model::Output Model::generate(const std::vector<int32_t>& prompt, uint32_t new_tokens,
                              const mkrt::EmulatorDeviceOptions& options) const {
  Opened opened = open({}, options);
  Output out;
  mkrt::GenerateOptions generation;
  generation.max_new_tokens = new_tokens;
  generation.logits = &out.logits;
  out.tokens = value_of(mkrt::generate(opened.session, prompt, generation));
  return out;
}

bool same_bits(const Model::Output& a, const Model::Output& b) {
  return a.tokens == b.tokens && a.logits.size() == b.logits.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

reference::Model random_weights(const std::string& family, reference::Type type) {
  reference::Shape shape;
  shape.family = family;
  shape.type = type;
  if (family == "qwen3_moe") shape.experts = 6;
  return reference::random_model(shape, 31);
}

std::vector<int32_t> prompt_of(size_t length, uint64_t vocab) {
  std::vector<int32_t> prompt(length);
  for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<int32_t>((i * 37 + length * 11) % vocab);
  return prompt;
}

}  // namespace mkc::test
