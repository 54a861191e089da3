#include "frontend/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "frontend/asked_format.h"
#include "frontend/defaults.h"
#include "frontend/fields.h"
#include "runtime/artefact/stored_matrix.h"
#include "runtime/artefact/tensor_view.h"

namespace mkc {
namespace {

Result<DType> config_dtype(const Scope& scope) {
  Node node = config_value(*scope.config, "dtype");
  if (node.is(Node::Kind::kNull)) node = config_value(*scope.config, "torch_dtype");
  if (node.is(Node::Kind::kNull)) return DType::bf16;
  if (node == string_node("bfloat16")) return DType::bf16;
  if (node == string_node("float16")) return DType::f16;
  if (node == string_node("float32")) return DType::f32;
  return scope.config->error(
      node.place,
      fmt::format("{} is {}, expected \"bfloat16\", \"float16\" or \"float32\"", node.path, describe(node)));
}

// Tells whether weights may have the type without scales.
bool is_plain(DType dtype) {
  const std::optional<mkrt::WeightType> type = find_weight_type(dtype);
  return type && !mkrt::weight_format(*type).coded();
}

// Returns the name that the file has for the tensor's type.
std::string type_of(const CheckpointTensor& tensor) {
  return tensor.stored.empty() ? dtype_name(tensor.dtype) : tensor.stored;
}

// Returns the type as safetensors calls it.
std::string stored_type(const CheckpointTensor& tensor) {
  if (!tensor.stored.empty()) return tensor.stored;
  if (tensor.dtype == DType::i32) return "I32";
  if (tensor.dtype == DType::e4m3) return "F8_E4M3";
  return mkrt::weight_format(*find_weight_type(tensor.dtype)).stored;
}

// Tells whether all bytes are equal. Heads and embeddings may differ in a few rows, such as those of added
// tokens. Two tensors of 300 MB each took 55 ms from memory and 0.3 s from disk (Intel Xeon, 2026-11-27).
bool same_content(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Returns what is missing beside the codes of a matrix that the config says is there, or "".
std::string missing_beside(const Quantization& asked, const mkrt::StoredMatrix& stored,
                           const std::string& weight, int64_t cols) {
  const bool integers = mkrt::weight_format(stored.type).code == mkrt::CodeType::kInteger;
  const auto missing = [&](const std::string& tensor, const char* reason) {
    return fmt::format("missing tensor \"{}\" beside \"{}\", expected one because {}", tensor, stored.codes,
                       reason);
  };
  if (integers && asked.asymmetric && stored.zeros.empty())
    return missing(weight + "_zero_point", "the config says that weights are not symmetric");
  const bool groups =
      stored.order == mkrt::CodeOrder::kColumns && stored.scale_cols < static_cast<uint64_t>(cols);
  if (groups && asked.reordered && stored.column_group.empty())
    return missing(stored.codes.substr(0, stored.codes.rfind('.') + 1) + "g_idx", "desc_act is true");
  return "";
}

}  // namespace

Result<bool> is_ignored(const IgnoreDecl& ignore, const Scope& scope) {
  if (!ignore.when) return true;
  return evaluate_bool(*ignore.when, scope);
}

Result<Checkpoint> Checkpoint::open(std::span<const CheckpointTensor> tensors, const Family& family,
                                    const Scope& scope, const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.tensors_ = tensors;
  checkpoint.directory_ = directory;
  checkpoint.config_ = scope.config;
  checkpoint.default_note_ = default_note(family, *scope.config);
  checkpoint.used_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [place, added] = checkpoint.by_name_.emplace(tensors[i].name, i);
    if (!added) {
      return error_at({tensors[i].file}, fmt::format("tensor \"{}\" is also in {}", tensors[i].name,
                                                     tensors[place->second].file));
    }
  }
  MKC_TRY(quantized, read_quantization(*scope.config, directory));
  checkpoint.quantized_ = quantized;
  if (tensors.empty() && quantized &&
      config_value(*scope.config, "quantization_config").is(Node::Kind::kNull))
    return error_at({directory},
                    "hf_quant_config.json without a checkpoint does not say which weights are "
                    "quantized, expected model.safetensors beside it");
  if (quantized && quantized->modelopt) {
    checkpoint.planned_ = read_modelopt_formats(*quantized->modelopt);
  } else if (quantized) {
    MKC_TRY(planned, read_planned_formats(*scope.config, !tensors.empty()));
    checkpoint.planned_ = std::move(planned);
  }
  if (tensors.empty()) {
    MKC_TRY(dtype, config_dtype(scope));
    checkpoint.dtype_ = dtype;
  }
  return checkpoint;
}

const CheckpointTensor* Checkpoint::find(const std::string& name) const {
  const std::optional<mkrt::TensorView> view = mkrt::find_view(name);
  const auto found = by_name_.find(view ? view->tensor : name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Result<DType> Checkpoint::take(const std::string& weight, const std::vector<int64_t>& of_weight,
                               const Loc& declared_at, int64_t stack) {
  if (tensors_.empty()) return dtype_;
  if (quantized_ && of_weight.size() == 2) {
    MKC_TRY(dtype, take_quantized(weight, of_weight, stack));
    if (dtype) return *dtype;
  }
  const std::optional<mkrt::TensorView> view = mkrt::find_view(weight);
  const std::string& name = view ? view->tensor : weight;
  const std::vector<int64_t> shape = view ? view->whole_shape(of_weight, stack) : of_weight;
  const CheckpointTensor* found = find(weight);
  if (!found) {
    std::vector<std::string> unused;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!used_[i]) unused.push_back(tensors_[i].name);
    }
    return error_at({directory_}, fmt::format("missing tensor \"{}\" [{}], needed by {}:{}:{}{}{}", name,
                                              fmt::join(shape, ", "), declared_at.file, declared_at.line,
                                              declared_at.col, suggestion(name, unused), default_note_));
  }
  const CheckpointTensor& tensor = *found;
  mark_used(name);
  if (tensor.shape != shape) {
    return error_at({tensor.file},
                    fmt::format("tensor \"{}\" has shape [{}], expected [{}]{}", name,
                                fmt::join(tensor.shape, ", "), fmt::join(shape, ", "), default_note_));
  }
  if (dtype_from_.empty()) {
    if (!is_plain(tensor.dtype)) {
      return error_at({tensor.file},
                      fmt::format("tensor \"{}\" is {}, expected bf16, f16 or f32", name, type_of(tensor)));
    }
    dtype_ = tensor.dtype;
    dtype_from_ = name;
  }
  if (tensor.dtype != dtype_) {
    return error_at({tensor.file}, fmt::format("tensor \"{}\" is {}, expected {} as \"{}\"", name,
                                               type_of(tensor), dtype_name(dtype_), dtype_from_));
  }
  return dtype_;
}

void Checkpoint::mark_used(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) used_[found->second] = true;
}

Result<Quantization> Checkpoint::quantization_of(const std::string& name) const {
  Quantization asked = *quantized_;
  if (!asked.mixed_zeros) return asked;
  MKC_TRY(rule, find_rule(*planned_, *config_, name));
  if (!rule || rule->bits == 0) return asked;
  asked.symmetric = !rule->zeros;
  asked.asymmetric = rule->zeros;
  return asked;
}

Result<std::optional<DType>> Checkpoint::take_quantized(const std::string& name,
                                                        const std::vector<int64_t>& shape, int64_t stack) {
  const mkrt::FindTensor find_header = [&](const std::string& tensor) -> std::optional<mkrt::TensorHeader> {
    const auto found = by_name_.find(tensor);
    if (found == by_name_.end()) return {};
    const CheckpointTensor& t = tensors_[found->second];
    return mkrt::TensorHeader{t.name, stored_type(t), t.file, t.shape};
  };
  MKC_TRY(asked, quantization_of(name));
  MKC_TRY(stored, mkrt::find_stored_matrix(find_header, name, static_cast<uint64_t>(shape[0]),
                                           static_cast<uint64_t>(shape[1]), asked.symmetric));
  if (!stored) return std::optional<DType>();
  const CheckpointTensor& codes = *find(stored->codes);
  if (mkrt::find_view(name) && codes.shape[0] != stack)
    return error_at({codes.file}, fmt::format("tensor \"{}\" has shape [{}], expected {} experts", codes.name,
                                              fmt::join(codes.shape, ", "), stack));
  const std::string missing = missing_beside(asked, *stored, name, shape[1]);
  if (!missing.empty()) return error_at({codes.file}, missing);
  MKC_TRY_STATUS(check_asked(name, *stored, shape));
  for (const std::string& tensor :
       {stored->codes, stored->scales, stored->factor, stored->zeros, stored->column_group})
    mark_used(tensor);
  for (const std::string& tensor : stored->beside) mark_used(tensor);
  return std::optional(static_cast<DType>(stored->type));
}

Status Checkpoint::check_asked(const std::string& name, const mkrt::StoredMatrix& stored,
                               const std::vector<int64_t>& shape) {
  const Document& document = quantized_->modelopt ? *quantized_->modelopt : *config_;
  const QuantizedMatrix matrix{name, stored, static_cast<uint64_t>(shape[0]),
                               static_cast<uint64_t>(shape[1])};
  MKC_TRY(named, check_asked_format(*planned_, document, matrix));
  targeted_ = targeted_ || named;
  if (!named && untargeted_.empty()) untargeted_ = stored.codes;
  return {};
}

Status Checkpoint::check_targets() const {
  if (targeted_ || untargeted_.empty()) return {};
  const Node groups = config_value(*config_, "quantization_config.config_groups");
  return config_->error(groups.place,
                        fmt::format("no target of {} names a quantized module, but tensor \"{}\" has codes",
                                    groups.path, untargeted_));
}

Result<std::optional<DType>> Checkpoint::planned_dtype(const std::string& name, int64_t cols,
                                                       const Scope& scope) const {
  if (!planned_ || !tensors_.empty()) return std::optional<DType>();
  return mkc::planned_dtype(*planned_, *scope.config, name, static_cast<uint64_t>(cols));
}

Error Checkpoint::unexpected(const std::string& name, const std::string& expected) const {
  if (!find(name))
    return error_at({directory_}, fmt::format("weight \"{}\" is quantized, expected {}", name, expected));
  const CheckpointTensor& tensor = *find(name);
  return error_at({tensor.file},
                  fmt::format("tensor \"{}\" is {}, expected {}", name, type_of(tensor), expected));
}

Status Checkpoint::take_scales(const std::string& name, int64_t heads) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  const CheckpointTensor& tensor = tensors_[found->second];
  used_[found->second] = true;
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  if (tensor.dtype != DType::i32 && (elements == 1 || elements == heads)) return {};
  return error_at({tensor.file}, fmt::format("tensor \"{}\" is {} [{}], expected 1 or {} scales", name,
                                             type_of(tensor), fmt::join(tensor.shape, ", "), heads));
}

Status Checkpoint::check_copy(const IgnoreDecl& copy, const Scope& scope) const {
  const CheckpointTensor *ignored = find(copy.name), *taken = find(copy.copy_of);
  if (!ignored || !taken || same_content(ignored->bytes, taken->bytes)) return {};
  const Node value = config_value(*scope.config, copy.key);
  return scope.config->error(value.place, fmt::format("{} is {}, but tensor \"{}\" differs from \"{}\"",
                                                      copy.key, describe(value), copy.name, copy.copy_of));
}

Result<std::vector<std::string_view>> Checkpoint::check_ignored(const Family& family,
                                                                const Scope& scope) const {
  std::vector<std::string_view> ignored;
  for (const IgnoreDecl& ignore : family.ignore) {
    MKC_TRY(applies, is_ignored(ignore, scope));
    if (!applies) continue;
    MKC_TRY_STATUS(check_copy(ignore, scope));
    ignored.push_back(ignore.name);
  }
  return ignored;
}

Status Checkpoint::check_all_used(const Family& family, const Scope& scope) const {
  MKC_TRY_STATUS(check_targets());
  MKC_TRY(ignored, check_ignored(family, scope));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    bool known = used_[i];
    for (const std::string_view pattern : ignored) known = known || matches_glob(pattern, tensors_[i].name);
    if (known) continue;
    return error_at({tensors_[i].file},
                    fmt::format("tensor \"{}\" [{}] has no place in the {} family{}", tensors_[i].name,
                                fmt::join(tensors_[i].shape, ", "), family.name, default_note_));
  }
  return {};
}

}  // namespace mkc
