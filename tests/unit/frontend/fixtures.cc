#include "tests/unit/frontend/fixtures.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace mkc::test {
namespace {

std::string make_temp_dir() {
  std::string name = (std::filesystem::temp_directory_path() / "mkc-frontend-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  return name;
}

std::string config(const std::string& architecture, const std::string& type, const std::string& more) {
  return fmt::format(R"({{
  "architectures": ["{}"],
  "model_type": "{}",
  "hidden_act": "silu",
  "hidden_size": 32,
  "intermediate_size": 48,
  "max_position_embeddings": 64,
  "num_attention_heads": 4,
  "num_hidden_layers": 1,
  "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
{}  "torch_dtype": "bfloat16",
  "vocab_size": 100
}}
)",
                     architecture, type, more);
}

}  // namespace

TempDir::TempDir() : path(make_temp_dir()) {}
TempDir::~TempDir() {
  std::filesystem::remove_all(path);
}

std::string TempDir::write(const std::string& name, std::string_view text) const {
  const std::string file = path + "/" + name;
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

std::string llama_config() {
  return config("LlamaForCausalLM", "llama", "");
}
std::string qwen2_config() {
  return config("Qwen2ForCausalLM", "qwen2", "  \"use_sliding_window\": false,\n  \"sliding_window\": 8,\n");
}
std::string qwen3_config() {
  return config("Qwen3ForCausalLM", "qwen3", "  \"head_dim\": 16,\n");
}
std::string mistral_config() {
  return config("MistralForCausalLM", "mistral", "  \"sliding_window\": null,\n");
}
std::string qwen3_moe_config() {
  return config("Qwen3MoeForCausalLM", "qwen3_moe",
                "  \"head_dim\": 16,\n  \"num_experts\": 4,\n  \"num_experts_per_tok\": 2,\n"
                "  \"moe_intermediate_size\": 24,\n  \"norm_topk_prob\": false,\n"
                "  \"decoder_sparse_step\": 1,\n  \"mlp_only_layers\": [],\n");
}
std::string mixtral_config() {
  return config("MixtralForCausalLM", "mixtral",
                "  \"num_local_experts\": 3,\n  \"num_experts_per_tok\": 2,\n  \"sliding_window\": null,\n");
}

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

Result<OpGraph> graph_of(const std::string& config_text, const ModelOptions& options,
                         const std::vector<CheckpointTensor>& tensors) {
  const TempDir dir;
  dir.write("config.json", config_text);
  const auto request = read_request(dir.path, options);
  if (!request.ok()) return request.error();
  return build_op_graph(request.value(), tensors);
}

OpGraph valid_graph_of(const std::string& config) {
  auto result = graph_of(config);
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message));
  return std::move(result).value();
}

const Tensor& tensor_of(const OpGraph& g, const std::string& name) {
  const auto found =
      std::find_if(g.tensors.begin(), g.tensors.end(), [&](auto& t) { return t.name == name; });
  REQUIRE_MESSAGE(found != g.tensors.end(), name);
  return *found;
}

std::vector<CheckpointTensor> checkpoint_of(const OpGraph& graph) {
  std::vector<CheckpointTensor> tensors;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.kind != TensorKind::kWeight) continue;
    CheckpointTensor out{tensor.source, tensor.dtype, {}, "model.safetensors"};
    for (const Expr& dim : tensor.shape) out.shape.push_back(dim.constant());
    const size_t mark = tensor.source.find(kExpertMark);
    if (mark == std::string::npos) {
      tensors.push_back(out);
      continue;
    }
    const int64_t experts = out.shape[0];
    out.shape.erase(out.shape.begin());
    for (int64_t e = 0; e < experts; ++e) {
      out.name = tensor.source;
      out.name.replace(mark, kExpertMark.size(), std::to_string(e));
      tensors.push_back(out);
    }
  }
  return tensors;
}

std::string example(const std::string& name) {
  const auto page = read_source(MKC_SOURCE_DIR "/docs/families.md");
  REQUIRE(page.ok());
  const std::string& text = page.value().text;
  const size_t mark = text.find("<!-- " + name + " -->");
  REQUIRE(mark != std::string::npos);
  const size_t begin = text.find('\n', text.find("```", mark)) + 1;
  return text.substr(begin, text.find("```", begin) - begin);
}

std::string listing(const OpGraph& graph) {
  std::string out;
  for (const Op& op : graph.ops) {
    out += fmt::format("{} {}", op.layer, op_schema(op.kind).name);
    for (const TensorId id : op.inputs) out += " " + graph.tensors[id].name;
    out += " ->";
    for (const TensorId id : op.outputs) out += " " + graph.tensors[id].name;
    for (const Attr& attr : op.attrs) {
      out += attr.is_float ? fmt::format(" {}={:.6g}", attr.name, attr.f)
                           : fmt::format(" {}={}", attr.name, attr.i);
    }
    out += "\n";
  }
  return out;
}

std::string headline_of(const std::string& message) {
  std::string line = message.substr(0, message.find('\n'));
  for (size_t at = line.find("/mkc-frontend-"); at != std::string::npos; at = line.find("/mkc-frontend-")) {
    const size_t begin = line.rfind(' ', at) == std::string::npos ? 0 : line.rfind(' ', at) + 1;
    const size_t end = at + std::string_view("/mkc-frontend-XXXXXX").size();
    line.replace(begin, end - begin, "DIR");
  }
  return line;
}

}  // namespace mkc::test
