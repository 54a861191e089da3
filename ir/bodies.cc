#include "ir/bodies.h"

namespace mkc {
using enum OperandKind;

bool fits(OperandKind kind, const Tensor& t) {
  switch (kind) {
    case kValue:
      return is_computed(t.kind) && t.dtype == DType::f32;
    case kBf16Value:
      return t.kind == TensorKind::kActivation && t.dtype == DType::bf16;
    case kEither:
      return fits(kValue, t) || fits(kBf16Value, t);
    case kCodes:
      return t.kind == TensorKind::kActivation && t.dtype == DType::e4m3;
    case kIndex:
      return is_computed(t.kind) && t.dtype == DType::i32;
    case kStep:
      return t.kind == TensorKind::kInput && t.dtype == DType::i32;
    case kWeight:
      return t.kind == TensorKind::kWeight && find_weight_type(t.dtype).has_value();
    case kVector:
      return t.kind == TensorKind::kWeight && t.dtype == DType::f32;
    case kTable:
      return t.kind == TensorKind::kTable && t.dtype == DType::f32;
    case kCache:
      return t.kind == TensorKind::kCache && t.dtype != DType::i32;
  }
  MKC_BUG("operand of unknown kind");
}

const char* operand_text(OperandKind kind) {
  switch (kind) {
    case kValue:
      return "f32 activation or output";
    case kBf16Value:
      return "bf16 activation";
    case kEither:
      return "f32 or bf16 activation";
    case kCodes:
      return "e4m3 activation";
    case kIndex:
      return "i32 activation or output";
    case kStep:
      return "i32 input";
    case kWeight:
      return "floating-point weight";
    case kVector:
      return "f32 weight";
    case kTable:
      return "f32 table";
    case kCache:
      return "floating-point cache";
  }
  MKC_BUG("operand of unknown kind");
}

std::vector<NamedDim> dims_of(const Attrs& attrs) {
  const int64_t head_dim = int_attr(attrs, "head_dim", 0), heads = int_attr(attrs, "heads", 0),
                kv_heads = int_attr(attrs, "kv_heads", 0);
  std::vector<NamedDim> dims{{'1', 1}, {'c', kKSlices}, {'r', kTileRows}};
  if (head_dim != 0) dims.push_back({'h', head_dim});
  if (heads != 0) {
    dims.push_back({'H', heads});
    dims.push_back({'G', kv_heads});
    dims.push_back({'Q', heads * head_dim});
    dims.push_back({'E', kv_heads * head_dim});
    dims.push_back({'M', 2 * heads});
  }
  if (const Attr* top_k = find_attr(attrs, "top_k")) dims.push_back({'k', top_k->i});
  return dims;
}

}  // namespace mkc
