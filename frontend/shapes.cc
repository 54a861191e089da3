#include "frontend/shapes.h"

#include <fmt/format.h>

#include "frontend/source.h"

namespace mkc {
namespace {

const char* const kSymbolNames[] = {"T", "B", "R"};

std::string text_of(const std::vector<Expr>& shape) {
  const std::vector<std::string> names(std::begin(kSymbolNames), std::end(kSymbolNames));
  std::string text;
  for (const Expr& dim : shape) text += (text.empty() ? "" : ", ") + to_string(dim, names);
  return "[" + text + "]";
}

// Fails unless an operand has the wanted shape. A dim of -1 may have any size.
Status expect(const OpSchema& schema, const char* role, const Tensor& operand,
              const std::vector<Expr>& wanted) {
  bool fits = operand.shape.size() == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) {
    fits = wanted[i].is_const(-1) || wanted[i] == operand.shape[i];
  }
  if (fits) return {};
  std::string expected = text_of(wanted);
  for (size_t at = expected.find("-1"); at != std::string::npos; at = expected.find("-1", at)) {
    expected.replace(at, 2, "any");
  }
  return Error{fmt::format("{} of {} is %{} {}, expected {}", role, schema.name, operand.name,
                           text_of(operand.shape), expected)};
}

}  // namespace

Result<std::vector<Typed>> infer_outputs(OpKind kind, const std::vector<Tensor>& inputs,
                                         const std::vector<Tensor>& caches, const Attrs& attrs) {
  const OpSchema& schema = op_schema(kind);
  const Expr tokens = symbol(SymbolId{0});
  const Expr requests = symbol(SymbolId{1});
  const Expr wanted_rows = symbol(SymbolId{2});
  const Expr any = -1;
  const auto check = [&](size_t i, const std::vector<Expr>& wanted) {
    return expect(schema, std::string(role_name(schema.inputs[i])).c_str(), inputs[i], wanted);
  };
  const auto dim = [&](size_t i, size_t axis) { return inputs[i].shape[axis]; };
  const auto rows_of = [&](const Expr& columns) {
    return std::vector<Typed>{{DType::f32, {tokens, columns}}};
  };
  // Returns the rows of an operand: all rows of the step, or those that gather_rows picked.
  const auto rows_in = [&](size_t i) {
    const bool gathered = inputs[i].shape.size() == 2 && dim(i, 0) == wanted_rows;
    return gathered ? wanted_rows : tokens;
  };
  const int64_t head_dim = int_attr(attrs, "head_dim", 0);

  switch (kind) {
    case OpKind::kEmbed:
      MKC_TRY_STATUS(check(0, {tokens}));
      MKC_TRY_STATUS(check(1, {any, any}));
      return rows_of(dim(1, 1));
    case OpKind::kRmsNorm:
      MKC_TRY_STATUS(check(0, {rows_in(0), any}));
      MKC_TRY_STATUS(check(1, {dim(0, 1)}));
      return std::vector<Typed>{{DType::f32, inputs[0].shape}};
    case OpKind::kLinear:
      MKC_TRY_STATUS(check(0, {rows_in(0), any}));
      MKC_TRY_STATUS(check(1, {any, dim(0, 1)}));
      if (inputs.size() > 2) MKC_TRY_STATUS(check(2, {dim(1, 0)}));
      return std::vector<Typed>{{DType::f32, {dim(0, 0), dim(1, 0)}}};
    case OpKind::kHeadNorm:
      MKC_TRY_STATUS(check(0, {tokens, any}));
      MKC_TRY_STATUS(check(1, {head_dim}));
      return rows_of(dim(0, 1));
    case OpKind::kRope:
      MKC_TRY_STATUS(check(0, {tokens, any}));
      MKC_TRY_STATUS(check(1, {tokens}));
      MKC_TRY_STATUS(check(2, {any, head_dim}));
      return rows_of(dim(0, 1));
    case OpKind::kKvWrite: {
      MKC_TRY_STATUS(check(0, {tokens, any}));
      MKC_TRY_STATUS(check(1, {tokens, dim(0, 1)}));
      MKC_TRY_STATUS(check(2, {tokens}));
      for (size_t i = 0; i < caches.size(); ++i) {
        MKC_TRY_STATUS(expect(schema, schema.outputs[i], caches[i], {requests, any, any, any}));
        if (caches[i].shape[1] * caches[i].shape[3] == dim(0, 1)) continue;
        return Error{fmt::format("{} of kv_write is %{} {}, expected heads of {} columns in all",
                                 schema.outputs[i], caches[i].name, text_of(caches[i].shape),
                                 to_string(dim(0, 1), {}))};
      }
      return std::vector<Typed>();
    }
    case OpKind::kAttention: {
      const Expr columns = int_attr(attrs, "heads", 0) * head_dim;
      const Expr groups = int_attr(attrs, "kv_heads", 0);
      MKC_TRY_STATUS(check(0, {tokens, columns}));
      MKC_TRY_STATUS(check(1, {requests, groups, any, head_dim}));
      MKC_TRY_STATUS(check(2, {requests, groups, dim(1, 2), head_dim}));
      MKC_TRY_STATUS(check(3, {tokens}));
      return rows_of(columns);
    }
    case OpKind::kLayerNorm:
      MKC_TRY_STATUS(check(0, {any, any}));
      for (size_t i = 1; i < inputs.size(); ++i) MKC_TRY_STATUS(check(i, {dim(0, 1)}));
      return std::vector<Typed>{{DType::f32, inputs[0].shape}};
    case OpKind::kGatherRows:
      MKC_TRY_STATUS(check(0, {tokens, any}));
      return std::vector<Typed>{{DType::f32, {wanted_rows, dim(0, 1)}}};
    case OpKind::kSample:
      MKC_TRY_STATUS(check(0, {wanted_rows, any}));
      return std::vector<Typed>{{DType::i32, {requests}}};
    case OpKind::kRoute: {
      MKC_TRY_STATUS(check(0, {tokens, any}));
      const std::vector<Expr> choices = {tokens, int_attr(attrs, "top_k", 0)};
      return std::vector<Typed>{{DType::i32, choices}, {DType::f32, choices}};
    }
    case OpKind::kExpertLinear: {
      MKC_TRY_STATUS(check(1, {tokens, any}));
      const Expr pairs = dim(1, 1) * dim(1, 0);
      const bool of_tokens = inputs[0].shape.size() == 2 && dim(0, 0) == tokens;
      MKC_TRY_STATUS(check(0, {of_tokens ? tokens : pairs, any}));
      MKC_TRY_STATUS(check(2, {any, any, dim(0, 1)}));
      return std::vector<Typed>{{DType::f32, {pairs, dim(2, 1)}}};
    }
    case OpKind::kExpertSum:
      MKC_TRY_STATUS(check(1, {tokens, any}));
      MKC_TRY_STATUS(check(0, {dim(1, 1) * dim(1, 0), any}));
      return rows_of(dim(0, 1));
    default:
      MKC_ASSERT(!schema.row_steps.empty(), "unknown op kind");
      MKC_TRY_STATUS(check(0, {any, any}));
      for (size_t i = 1; i < inputs.size(); ++i) MKC_TRY_STATUS(check(i, inputs[0].shape));
      return std::vector<Typed>{{DType::f32, inputs[0].shape}};
  }
}

}  // namespace mkc
