// The operator graph of one model step is level 1.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/abi/packing.h"
#include "runtime/abi/row_steps.h"

namespace mkc {

// The table of ops.cc defines each kind: its operands with their shapes, its attributes and what it means.
enum class OpKind : uint8_t {
  kEmbed,
  kRmsNorm,
  kLinear,
  kHeadNorm,
  kRope,
  kKvWrite,
  kAttention,
  kLayerNorm,
  kAdd,
  kMul,
  kScale,
  kSilu,
  kGelu,
  kGeluTanh,
  kSigmoid,
  kClamp,
  kSoftCap,
  kSiluMul,
  kGeluMul,
  kGeluTanhMul,
  kSwigluOai,
  kGatherRows,
  kSample,
  kRoute,
  kExpertLinear,
  kExpertSum,
};

enum class OperandKind : uint8_t {
  kValue,      // f32 activation or output
  kBf16Value,  // bf16 activation
  kEither,     // either of these
  kCodes,      // e4m3 activation
  kIndex,      // i32 activation or output
  kStep,       // i32 input
  kWeight,     // weight of any floating-point dtype
  kVector,     // f32 weight
  kTable,      // f32 table
  kCache,      // cache of any floating-point dtype
};
// Shape of an operand: a letter for each dim. One letter stands for one size in all operands of an op or a
// grid. Some letters are known: 1; c the K slices of a weight's columns; r the rows of a strip. Attributes
// give h head_dim, H heads, G kv_heads, Q heads * head_dim, E kv_heads * head_dim, M 2 * heads and k top_k.
//
// Operands of ops have further known letters: T tokens of the step, B requests, R rows that need logits. A is
// T or R. P is k * T, a row for each choice of each token. Y is T or P.
struct OperandSchema {
  OperandKind kind;
  const char* dims;
};

struct RoleSchema {
  const char* name;  // "weight"; a trailing '?' marks an optional role
  OperandSchema operand;
};

// OpSchema is all that an op kind is: the reader, the parser, shape inference, the verifier and fusion use
// it.
struct OpSchema {
  OpKind kind;
  const char* name;                 // "rms_norm"
  std::vector<RoleSchema> inputs;   // in order; the last one may be optional
  std::vector<RoleSchema> outputs;  // f32 values, i32 indices, or caches that exist before the op
  std::vector<const char*> int_attrs{};
  std::vector<const char*> float_attrs{};
  // The steps of a row grid that are the op, where there are any. A step with an operand reads the op's last
  // input. A step with a constant has the float attribute of the same index.
  std::vector<mkrt::RowStep> row_steps{};
};
const OpSchema& op_schema(OpKind kind);
const OpSchema* find_op_schema(std::string_view name);  // nullptr where unknown
std::vector<std::string> op_names();
// Returns the activation of an op that multiplies an activation of `gate` with `up`, kNone for other ops.
mkrt::Activation gate_of(OpKind kind);
inline bool is_gated(OpKind kind) {
  return gate_of(kind) != mkrt::Activation::kNone;
}
std::string_view role_name(std::string_view role);  // returns the role without the mark of an optional one

struct Op {
  OpKind kind = OpKind::kAdd;
  std::vector<TensorId> inputs;  // by role, in schema order
  std::vector<TensorId> outputs;
  Attrs attrs;
  int32_t layer = -1;  // -1 outside the repeated layers
  Loc loc;
  bool operator==(const Op&) const = default;
};

// RopeTable is a table of the cosines and sines of rotary embeddings. Entry [p, i] is scale * cos(p *
// inv_freq[i]), entry [p, hd/2 + i] is the sine of the same angle with the same scale.
struct RopeTable {
  TensorId tensor;
  std::vector<double> inv_freq;  // hd/2
  double scale = 1;
  bool operator==(const RopeTable&) const = default;
};

struct OpGraph {
  std::string name;
  Table<SymbolId, Symbol> symbols;
  Table<TensorId, Tensor> tensors;
  Table<OpId, Op> ops;  // in program order: an op follows the ops it reads from
  std::vector<RopeTable> ropes;
  bool operator==(const OpGraph&) const = default;
};

}  // namespace mkc
