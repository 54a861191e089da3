// All three levels share tensors, symbols and regions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/expr.h"
#include "ir/ids.h"
#include "runtime/abi/weight_format.h"

namespace mkc {

// A dtype is that of a weight format, or an integer. Formats with groups are of weights alone
// (runtime/abi/weight_format.h).
#define MKC_NAME(name, enumerator) name,
enum class DType : uint8_t { MKRT_EACH_WEIGHT_TYPE(MKC_NAME) i32 };
#undef MKC_NAME
#define MKC_DTYPE(name, enumerator) DType::name,
constexpr DType kDTypes[] = {MKRT_EACH_WEIGHT_TYPE(MKC_DTYPE) DType::i32};
#undef MKC_DTYPE
constexpr DType kCacheDTypes[] = {DType::bf16, DType::f16, DType::f32, DType::e4m3};
// Returns the bytes of one element, and 1 for codes of 4 bits.
int64_t dtype_bytes(DType t);
const char* dtype_name(DType t);                // the enumerator
Result<DType> parse_dtype(std::string_view s);  // accepts the names of dtype_name
// Returns the format of matrices of the dtype, or nothing where weights have no such format.
std::optional<mkrt::WeightType> find_weight_type(DType t);

// A symbol is a size known at run time, or a list of such sizes. "T" counts the tokens of the step and "B"
// its requests. "kv_len[B]" gives each request's positions in the cache, including those of this step.
// "active_experts" counts the experts that have tokens. The step's values lie within [bounds.lo, bounds.hi].
struct Symbol {
  std::string name;
  Bounds bounds;  // bounds of the symbol, or of each element of a list
  Loc loc;
  Expr length{};  // length of a list, over earlier symbols that are no lists; 0: no list
  // `sums` names an earlier list of interval lengths; this list then holds the starts of the intervals. The
  // intervals lie end to end from 0 on, in list order, so that element i is the sum of the lengths before i.
  // Cut lists are the exception: their intervals lie in another order. An invalid id means that the list is
  // given and not summed.
  SymbolId sums{};
  // The values of a routed symbol are found within the step. The values at a grid are those of the route
  // whose tables the grid reads. The table of a symbol is the operand whose role is the symbol's name.
  bool routed = false;
  // Every worker computes the values of a cut symbol when a step begins. Cut symbols describe the blocks that
  // rows are cut into (RowBlocks in step_symbols.h).
  bool cut = false;
  bool is_list() const { return !length.is_const(0); }
  bool operator==(const Symbol&) const = default;
};

enum class TensorKind : uint8_t {
  kInput,       // written by the host for each step (tokens, positions)
  kWeight,      // a checkpoint tensor, or packed from several (see Packing)
  kActivation,  // lives within one step, in the workspace
  kCache,       // keys and values, kept between steps
  kOutput,      // read by the host after the step (logits, next tokens)
  kTable,       // computed once at load from the description (RoPE cosines and sines)
};

// Tells whether the step computes tensors of this kind.
inline bool is_computed(TensorKind kind) {
  return kind == TensorKind::kActivation || kind == TensorKind::kOutput;
}

// How a weight operand of a product is laid out for the loader. Rows are taken `group` at a time from each
// source in turn; one source keeps its order. The rows are zero-padded to a multiple of kTileRows and cut
// into tiles of kTileRows x tile columns. See docs/packing.md and runtime/abi/packing.h.
struct Packing {
  std::vector<TensorId> sources;  // [rows, cols] each, all of one dtype and shape
  int64_t group = 0;              // 0 with one source; 8 for gate/up
  bool operator==(const Packing&) const = default;
};

constexpr std::string_view kExpertMark = "{e}";

struct Tensor {
  std::string name;  // unique; printed as %name
  TensorKind kind = TensorKind::kActivation;
  DType dtype = DType::f32;
  std::vector<Expr> shape;  // row-major; over symbols only
  // The source of a weight is its name in the checkpoint. A name with kExpertMark stands for several tensors,
  // stacked along the first dim. Each of their names has its number in place of the mark. The source of an
  // e4m3 cache is the name of its scales. The source is "" otherwise.
  std::string source;
  Packing packing;  // sources empty: not packed
  Loc loc;
  bool operator==(const Tensor&) const = default;
};

// Tells whether the tensor is a weight of a matrix, or of one for each expert.
bool is_matrix(const Tensor& tensor);
// Returns the format of a weight that is a matrix.
mkrt::WeightType weight_type(const Tensor& weight);
mkrt::WeightFormat weight_format(const Tensor& weight);

// Returns the checkpoint's name of a weight. `expert` selects one of the tensors that a stacked weight holds.
std::string source_name(const Tensor& weight, int64_t expert);

// Returns the number of tensors of the same kind before it. Inputs and caches are bound at run time in this
// order.
uint32_t number_in_kind(const Table<TensorId, Tensor>& tensors, TensorId tensor);

// Range is the half-open interval [offset, offset + size) of one dim.
struct Range {
  Expr offset;
  Expr size;
  bool operator==(const Range&) const = default;
};
using Region = std::vector<Range>;  // one Range per dim

// Attr is a named parameter of an op or a body (eps, head_dim, …). Attributes are sorted by name. Doubles
// print as %.17g with a '.' or 'e'.
struct Attr {
  std::string name;
  bool is_float = false;
  int64_t i = 0;
  double f = 0;
  bool operator==(const Attr&) const = default;
};
using Attrs = std::vector<Attr>;
const Attr* find_attr(const Attrs& attrs, std::string_view name);  // nullptr where absent
// Return the attribute's value, or `fallback` where it is absent.
int64_t int_attr(const Attrs& attrs, std::string_view name, int64_t fallback);
double float_attr(const Attrs& attrs, std::string_view name, double fallback);
// Set the attribute, and keep attributes sorted by name.
void set_attr(Attrs& attrs, std::string_view name, int64_t value);
void set_attr(Attrs& attrs, std::string_view name, double value);

}  // namespace mkc
