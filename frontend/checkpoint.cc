#include "frontend/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/fields.h"

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
  return type && !mkrt::weight_format(*type).scaled();
}

// Returns the name that the file has for the tensor's type.
std::string type_of(const CheckpointTensor& tensor) {
  return tensor.stored.empty() ? dtype_name(tensor.dtype) : tensor.stored;
}

// Returns the name of the tensor that has a matrix as codes of 4 bits.
std::string codes_of(const std::string& name) {
  return name + mkrt::weight_format(mkrt::WeightType::kInt4).codes;
}

int64_t blocks_of(int64_t size) {
  return (size + mkrt::kScaleBlock - 1) / mkrt::kScaleBlock;
}

// Tells whether the text fits the pattern. `*` stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches(pattern.substr(star + 1), text.substr(at))) return true;
  }
  return false;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(std::span<const CheckpointTensor> tensors, const Scope& scope,
                                    const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.tensors_ = tensors;
  checkpoint.directory_ = directory;
  checkpoint.used_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [place, added] = checkpoint.by_name_.emplace(tensors[i].name, i);
    if (!added) {
      return error_at({tensors[i].file}, fmt::format("tensor \"{}\" is also in {}", tensors[i].name,
                                                     tensors[place->second].file));
    }
  }
  MKC_TRY(quantized, read_quantization(*scope.config));
  checkpoint.quantized_ = quantized;
  if (tensors.empty() && quantized != Quantization::kNone) {
    return scope.config->error(config_value(*scope.config, "quantization_config").place,
                               "the config alone does not say which weights are quantized, expected "
                               "model.safetensors beside it");
  }
  if (tensors.empty()) {
    MKC_TRY(dtype, config_dtype(scope));
    checkpoint.dtype_ = dtype;
  }
  return checkpoint;
}

Result<DType> Checkpoint::take(const std::string& name, const std::vector<int64_t>& shape,
                               const Loc& declared_at) {
  if (tensors_.empty()) return dtype_;
  const auto found = by_name_.find(name);
  const bool matrix = shape.size() == 2;
  if (found == by_name_.end() && matrix && quantized_ == Quantization::kInt4 &&
      by_name_.contains(codes_of(name)))
    return take_int4(name, shape);
  if (found == by_name_.end()) {
    std::vector<std::string> unused;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!used_[i]) unused.push_back(tensors_[i].name);
    }
    return error_at({directory_}, fmt::format("missing tensor \"{}\" [{}], needed by {}:{}:{}{}", name,
                                              fmt::join(shape, ", "), declared_at.file, declared_at.line,
                                              declared_at.col, suggestion(name, unused)));
  }
  const CheckpointTensor& tensor = tensors_[found->second];
  used_[found->second] = true;
  if (tensor.shape != shape) {
    return error_at({tensor.file}, fmt::format("tensor \"{}\" has shape [{}], expected [{}]", name,
                                               fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  }
  if (quantized_ == Quantization::kE4m3 && matrix && tensor.dtype == DType::e4m3)
    return take_e4m3(name, shape);
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

const CheckpointTensor* Checkpoint::take_if_there(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  used_[found->second] = true;
  return &tensors_[found->second];
}

Result<DType> Checkpoint::take_e4m3(const std::string& name, const std::vector<int64_t>& shape) {
  const mkrt::WeightFormat block = mkrt::weight_format(mkrt::WeightType::kE4m3Block);
  const CheckpointTensor* scales = take_if_there(name + block.scales);
  if (!scales) scales = take_if_there(name + block.other_scales);
  const std::string module = name.substr(0, name.rfind('.') + 1);
  take_if_there(module + "input_scale");  // of activations as 8-bit floats; mkc keeps bf16, which is closer
  const std::vector<std::vector<int64_t>> of_rows = {{shape[0], 1}, {shape[0]}, {1}, {}, {1, 1}};
  const std::vector<int64_t> of_blocks = {blocks_of(shape[0]), blocks_of(shape[1])};
  const std::string expected = fmt::format(
      "[{}, 1], [1] or [{}], a scale for each row, for all, or for each block "
      "of {} x {}",
      shape[0], fmt::join(of_blocks, ", "), mkrt::kScaleBlock, mkrt::kScaleBlock);
  if (!scales)
    return error_at({tensors_[by_name_.at(name)].file},
                    fmt::format("missing tensor \"{}{}\" or \"{}{}\", expected {}", name, block.scales, name,
                                block.other_scales, expected));
  if (is_plain(scales->dtype) && std::ranges::count(of_rows, scales->shape) != 0) return DType::e4m3;
  if (is_plain(scales->dtype) && scales->shape == of_blocks) return DType::e4m3_block;
  return error_at({scales->file},
                  fmt::format("tensor \"{}\" is {} [{}], expected bf16, f16 or f32 {}", scales->name,
                              type_of(*scales), fmt::join(scales->shape, ", "), expected));
}

Result<DType> Checkpoint::take_int4(const std::string& name, const std::vector<int64_t>& shape) {
  const mkrt::WeightFormat wide = mkrt::weight_format(mkrt::WeightType::kInt4),
                           narrow = mkrt::weight_format(mkrt::WeightType::kInt4Group32);
  const CheckpointTensor& codes = *take_if_there(codes_of(name));
  const CheckpointTensor* scales = take_if_there(name + wide.scales);
  take_if_there(name + "_shape");
  constexpr int64_t kCodes = 8;  // in a word
  const std::vector<int64_t> words{shape[0], shape[1] / kCodes};
  if (codes.dtype != DType::i32 || codes.shape != words || shape[1] % kCodes != 0)
    return error_at(
        {codes.file},
        fmt::format("tensor \"{}\" is {} [{}], expected I32 [{}], {} codes in a word", codes.name,
                    type_of(codes), fmt::join(codes.shape, ", "), fmt::join(words, ", "), kCodes));
  if (!scales)
    return error_at({codes.file}, fmt::format("missing tensor \"{}{}\", the scales of \"{}\"", name,
                                              wide.scales, codes.name));
  const bool rows = is_plain(scales->dtype) && scales->shape.size() == 2 && scales->shape[0] == shape[0] &&
                    scales->shape[1] > 0 && shape[1] % scales->shape[1] == 0;
  const int64_t group = rows ? shape[1] / scales->shape[1] : 0;
  const auto fits = [&](const mkrt::WeightFormat& format) {
    return rows && (scales->shape[1] == 1 || group % format.group_cols == 0);
  };
  if (fits(wide) && shape[1] % col_quantum(wide) == 0) return DType::int4;
  if (fits(narrow)) return DType::int4_group32;
  return error_at(
      {scales->file},
      fmt::format("tensor \"{}\" is {} [{}], expected bf16, f16 or f32 [{}, n], a scale for each row or "
                  "for each group of a multiple of {} columns",
                  scales->name, type_of(*scales), fmt::join(scales->shape, ", "), shape[0],
                  narrow.group_cols));
}

Error Checkpoint::unexpected(const std::string& name, const std::string& expected) const {
  const CheckpointTensor& tensor = tensors_[by_name_.at(name)];
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

Status Checkpoint::check_all_used(const Family& family, const Scope& scope) const {
  std::vector<std::string_view> ignored;
  for (const IgnoreDecl& ignore : family.ignore) {
    bool applies = true;
    if (ignore.when) {
      MKC_TRY(when, evaluate_bool(*ignore.when, scope));
      applies = when;
    }
    if (applies) ignored.push_back(ignore.name);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    bool known = used_[i];
    for (const std::string_view pattern : ignored) known = known || matches(pattern, tensors_[i].name);
    if (known) continue;
    return error_at({tensors_[i].file},
                    fmt::format("tensor \"{}\" [{}] has no place in the {} family", tensors_[i].name,
                                fmt::join(tensors_[i].shape, ", "), family.name));
  }
  return {};
}

}  // namespace mkc
