#include "tests/stress/tiny_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "codegen/describe.h"
#include "codegen/plan.h"
#include "frontend/op_graph.h"
#include "runtime/emulator/half.h"
#include "scheduler/events.h"
#include "scheduler/fuse.h"
#include "scheduler/place.h"
#include "scheduler/prove.h"

namespace mkc::test {
namespace {

template <class T>
T or_fail(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result.value());
}

const char* architecture(const std::string& family) {
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "qwen3") return "Qwen3ForCausalLM";
  return family == "mistral" ? "MistralForCausalLM" : "LlamaForCausalLM";
}

std::string config_of(const TinyModel& m) {
  const char* dtypes[] = {"float32", "float16", "bfloat16"};
  nlohmann::json config = {
      {"architectures", {architecture(m.family)}},
      {"model_type", m.family},
      {"hidden_act", "silu"},
      {"hidden_size", m.hidden},
      {"intermediate_size", m.ffn},
      {"max_position_embeddings", m.context},
      {"num_attention_heads", m.heads},
      {"num_hidden_layers", m.layers},
      {"num_key_value_heads", m.kv_heads},
      {"rms_norm_eps", 1e-5},
      {"rope_theta", 10000.0},
      {"torch_dtype", dtypes[m.dtype == DType::f32   ? 0
                             : m.dtype == DType::f16 ? 1
                                                     : 2]},
      {"vocab_size", m.vocab},
  };
  if (m.window != 0) config["sliding_window"] = m.window;
  if (m.family != "qwen2") config["head_dim"] = m.head_dim;
  return config.dump();
}

// Normal values of deviation 1/sqrt(last dim), around 1 for vectors that scale.
std::string random_bytes(const Tensor& t, uint64_t elements, double columns, std::mt19937& random) {
  std::normal_distribution<float> normal(0, static_cast<float>(1 / std::sqrt(columns)));
  const bool scales = t.source.ends_with("norm.weight");
  std::string bytes;
  for (uint64_t i = 0; i < elements; ++i) {
    const float value = normal(random) + (scales ? 1.0f : 0.0f);
    uint32_t bits = 0;
    if (t.dtype == DType::f32)
      std::memcpy(&bits, &value, sizeof(value));
    else
      bits = t.dtype == DType::f16 ? mkrt::emulator::f32_to_f16(value) : mkrt::emulator::f32_to_bf16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), t.dtype == DType::f32 ? 4 : 2);
  }
  return bytes;
}

// model.safetensors with every weight of the graph.
std::string random_checkpoint(const OpGraph& graph) {
  std::mt19937 random(7);
  nlohmann::json header;
  std::string data;
  for (const Tensor& t : graph.tensors) {
    if (t.kind != TensorKind::kWeight) continue;
    std::vector<int64_t> shape;
    uint64_t elements = 1;
    for (const Expr& dim : t.shape) {
      shape.push_back(dim.constant());
      elements *= static_cast<uint64_t>(shape.back());
    }
    const size_t begin = data.size();
    data += random_bytes(t, elements, static_cast<double>(shape.back()), random);
    const char* dtype = t.dtype == DType::f32 ? "F32" : t.dtype == DType::f16 ? "F16" : "BF16";
    header[t.source] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text + data;
}

// The emulator, told in each launch that the step's positions are `shift` further on.
class ShiftedEmulator final : public mkrt::Device {
 public:
  ShiftedEmulator(std::unique_ptr<mkrt::Device> emulator, uint32_t shift)
      : emulator_(std::move(emulator)), shift_(static_cast<int32_t>(shift)) {}

  std::string name() const override { return emulator_->name(); }
  Result<uint64_t> allocate(uint64_t bytes) override {
    Result<uint64_t> at = emulator_->allocate(bytes);
    if (at.ok()) std::memset(reinterpret_cast<void*>(at.value()), 0, bytes);
    return at;
  }
  void release(uint64_t at) override { emulator_->release(at); }
  Status write(uint64_t to, std::span<const std::byte> from) override { return emulator_->write(to, from); }
  Status read(std::span<std::byte> to, uint64_t from) override { return emulator_->read(to, from); }
  Status clear(uint64_t at, uint64_t bytes) override { return emulator_->clear(at, bytes); }
  Status load(const mkrt::Artefact& artefact) override {
    symbols_ = artefact.manifest.symbols;
    return emulator_->load(artefact);
  }
  Status launch(uint64_t session, uint64_t step_at) override {
    auto& step = *reinterpret_cast<mkrt::MkStep*>(step_at);
    auto* positions = reinterpret_cast<int32_t*>(step.input[1]);
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i].name == "kv_len") step.symbol[i] += shift_;
      if (symbols_[i].name == "T")
        for (int32_t token = 0; token < step.symbol[i]; ++token) positions[token] += shift_;
    }
    return emulator_->launch(session, step_at);
  }

 private:
  std::unique_ptr<mkrt::Device> emulator_;
  int32_t shift_;
  std::vector<mkrt::ManifestSymbol> symbols_;
};

}  // namespace

Compiled::Compiled(const TinyModel& model) {
  const std::string config = config_of(model);
  directory.write("config.json", config);
  ModelOptions options;
  options.target = "emulator";
  options.max_tokens = model.max_tokens;
  const CompileRequest request = or_fail(read_request(directory.path, options));
  const OpGraph graph = or_fail(build_op_graph(request, {}));
  directory.write("model.safetensors", random_checkpoint(graph));
  checkpoint = or_fail(mkrt::open_checkpoint(directory.path));
  TaskProgram program = or_fail(fuse(graph));
  program = or_fail(derive_events(std::move(program), {100, 1000, model.workers}));
  schedule = or_fail(place(std::move(program), or_fail(load_machine("emulator")), {model.workers}));
  or_fail(prove(schedule));
  artefact.manifest = describe(schedule, {"", model.family, mkrt::hash_hex(config), "", "emulator", {}, -1});
  artefact.plan = make_plan(schedule, find_kinds(schedule));
}

Outcome run(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options) {
  const auto site = [&](uint32_t number) {
    return number < kernel.sites.size() ? kernel.sites[number] : std::string();
  };
  ShiftedEmulator device(mkrt::open_emulator(kernel.entry, options.device, site), options.first_position);
  const mkrt::Manifest& manifest = compiled.artefact.manifest;
  mkrt::Session session = or_fail(mkrt::Session::open(compiled.artefact, compiled.checkpoint,
                                                      manifest.config_hash, device, {options.timeout_ns}));
  Outcome outcome;
  std::mt19937 random(3);
  for (const uint32_t count : options.steps) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % manifest.vocab);
    std::vector<float> logits(count * manifest.vocab);
    const Result<int32_t> next = session.step(tokens, logits.data());
    if (!next.ok()) {
      outcome.error = next.error().message;
      break;
    }
    outcome.next.push_back(next.value());
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }
  return outcome;
}

}  // namespace mkc::test
