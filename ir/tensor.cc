#include "ir/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mkc {
namespace {

// Returns the attribute of that name. A missing attribute is added at its sorted position.
Attr& attr_slot(Attrs& attrs, std::string_view name) {
  auto at = std::lower_bound(attrs.begin(), attrs.end(), name,
                             [](const Attr& a, std::string_view n) { return a.name < n; });
  if (at == attrs.end() || at->name != name) at = attrs.insert(at, Attr{.name = std::string(name)});
  return *at;
}

}  // namespace

int64_t dtype_bytes(DType t) {
  if (const auto type = find_weight_type(t)) return std::max(1u, mkrt::weight_format(*type).bits / 8);
  return 4;
}

const char* dtype_name(DType t) {
  const auto type = find_weight_type(t);
  return type ? mkrt::weight_format(*type).name : "i32";
}

Result<DType> parse_dtype(std::string_view s) {
  for (DType t : kDTypes)
    if (s == dtype_name(t)) return t;
  std::vector<std::string_view> names;
  for (DType t : kDTypes) names.emplace_back(dtype_name(t));
  return Error{fmt::format("unknown dtype '{}', expected {}", s, fmt::join(names, ", "))};
}

std::optional<mkrt::WeightType> find_weight_type(DType t) {
  if (t == DType::i32) return {};
  return static_cast<mkrt::WeightType>(t);
}

bool is_matrix(const Tensor& t) {
  const bool stacked = t.source.find(kExpertMark) != std::string::npos;
  return t.kind == TensorKind::kWeight && t.shape.size() >= (stacked ? 3 : 2);
}

mkrt::WeightType weight_type(const Tensor& weight) {
  const std::optional<mkrt::WeightType> type = find_weight_type(weight.dtype);
  MKC_ASSERT(type, fmt::format("%{} is a weight of {}", weight.name, dtype_name(weight.dtype)));
  return *type;
}

mkrt::WeightFormat weight_format(const Tensor& weight) {
  return mkrt::weight_format(weight_type(weight));
}

uint32_t number_in_kind(const Table<TensorId, Tensor>& tensors, TensorId tensor) {
  const auto begin = tensors.begin();
  return static_cast<uint32_t>(std::count_if(
      begin, begin + tensor.index, [&](const Tensor& t) { return t.kind == tensors[tensor].kind; }));
}

const Attr* find_attr(const Attrs& attrs, std::string_view name) {
  const auto at = std::find_if(attrs.begin(), attrs.end(), [&](const Attr& a) { return a.name == name; });
  return at == attrs.end() ? nullptr : &*at;
}

int64_t int_attr(const Attrs& attrs, std::string_view name, int64_t fallback) {
  const Attr* attr = find_attr(attrs, name);
  return attr ? attr->i : fallback;
}

double float_attr(const Attrs& attrs, std::string_view name, double fallback) {
  const Attr* attr = find_attr(attrs, name);
  return attr ? attr->f : fallback;
}

void set_attr(Attrs& attrs, std::string_view name, int64_t value) {
  attr_slot(attrs, name) = {.name = std::string(name), .i = value};
}

void set_attr(Attrs& attrs, std::string_view name, double value) {
  attr_slot(attrs, name) = {.name = std::string(name), .is_float = true, .f = value};
}

std::string source_name(const Tensor& weight, int64_t expert) {
  std::string name = weight.source;
  if (const size_t at = name.find(kExpertMark); at != std::string::npos)
    name.replace(at, kExpertMark.size(), std::to_string(expert));
  return name;
}

}  // namespace mkc
