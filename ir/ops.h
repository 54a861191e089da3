// Level 1: the operator graph of one model step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/abi/packing.h"
#include "runtime/abi/row_steps.h"

namespace mkc {

// Op kinds with their inputs, outputs and attributes. Elements are floating-point where no i32 stands.
//
// kind          inputs                                        outputs                       attributes
// kEmbed        tokens[T] i32, table[V, D]                    out[T, D]
// kRmsNorm      x[T, D], weight[D]                            out[T, D]                     eps
// kLinear       x[T, K], weight[N, K], bias[N]?               out[T, N]
// kHeadNorm     x[T, H*hd], weight[hd]                        out[T, H*hd]                  eps, head_dim
// kRope         x[T, H*hd], positions[T], table[C, hd]        out[T, H*hd]                  head_dim
// kKvWrite      k[T, G*hd], v[T, G*hd], positions[T]          k_cache, v_cache [B, G, C, hd]
// kAttention    q[T, H*hd], k_cache, v_cache, positions       out[T, H*hd]                  see below
// kLayerNorm    x[T, D], weight[D], bias[D]?                  out[T, D]                     eps
// kAdd          a[T, D], b[T, D]                              out[T, D]
// kMul          a[T, D], b[T, D]                              out[T, D]
// kScale        x[T, D]                                       out[T, D]                     by
// kSilu         x[T, D]                                       out[T, D]
// kGelu         x[T, D]                                       out[T, D]
// kGeluTanh     x[T, D]                                       out[T, D]
// kSigmoid      x[T, D]                                       out[T, D]
// kClamp        x[T, D]                                       out[T, D]                     max, min
// kSoftCap      x[T, D]                                       out[T, D]                     cap
// kSiluMul      gate[T, F], up[T, F]                          out[T, F]
// kGeluMul      gate[T, F], up[T, F]                          out[T, F]
// kGeluTanhMul  gate[T, F], up[T, F]                          out[T, F]
// kGatherRows   x[T, D]                                       out[R, D]
// kSample       logits[R, V]                                  out[B] i32
// kRoute        logits[T, X]                                  choice[T, k] i32, share[T, k] top_k, norm_topk
// kExpertLinear x[T or T*k, K], choice[T, k], weight[X, N, K] out[T*k, N]
// kExpertSum    x[T*k, D], share[T, k]                        out[T, D]
//
// Sizes:
// - T is the number of tokens of the step and B its number of requests.
// - R is the number of rows that need logits: all rows (R = T) or each request's last row (R = B).
// - D, N, K and F are feature sizes, V is the size of the vocabulary.
// - H query heads and G key/value heads have width hd. C is the number of cache positions.
// - X experts exist, of which each token chooses k. Pair p of the T*k pairs is token p / k and choice p mod
//   k.
//
// Notes:
// - kRope: a row of the table is hd/2 cosines, then hd/2 sines. The halves of a head are rotated together, as
//   in the HF form of Llama.
// - kAttention: the attributes are head_dim, heads, kv_heads, scale and window. A window of 0 means all
//   earlier positions.
// - kSiluMul, kGeluMul and kGeluTanhMul multiply an activation of `gate` with `up` (gate_of).
// - kLayerNorm subtracts the mean of a row and divides by its standard deviation.
// - kSoftCap is cap * tanh(x / cap).
// - kGatherRows picks the rows for which logits are wanted.
// - kSample picks a token for each request from its last row (docs/sampling.md).
// - kRoute chooses the k greatest entries of a softmax, greatest first (ties: the lowest expert). The
//   probabilities of the chosen experts are the shares. norm_topk scales the shares to a sum of 1.
// - kExpertLinear multiplies each pair's row with the weight of the pair's expert.
// - kExpertSum adds the results of a token in the order of its choices.
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
  kIndex,      // i32 activation or output
  kStep,       // i32 input
  kWeight,     // weight of any floating-point dtype
  kVector,     // f32 weight
  kTable,      // f32 table
  kCache,      // cache of any floating-point dtype
};
// Shape of an operand: a letter for each dim. One letter stands for one size in all operands of an op or a
// grid. Some letters are known: 1; c the K slices of a weight's columns; r the rows of a strip. Attributes
// give h head_dim, G kv_heads, Q heads * head_dim, E kv_heads * head_dim, M 2 * heads and k top_k.
struct OperandSchema {
  OperandKind kind;
  const char* dims;
};

// All that an op kind is: the reader, the parser, the verifier and fusion use it.
struct OpSchema {
  OpKind kind;
  const char* name;                 // "rms_norm"
  std::vector<const char*> inputs;  // roles in order; a trailing '?' marks an optional last input
  std::vector<const char*> outputs;
  std::vector<const char*> int_attrs;
  std::vector<const char*> float_attrs;
  std::vector<OperandSchema> input_shapes, output_shapes;  // in the order of the roles
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

// Cosine and sine table of rotary embeddings. Entry [p, i] is scale * cos(p * inv_freq[i]), entry [p, hd/2 +
// i] is the sine of the same angle with the same scale.
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
