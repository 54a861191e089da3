// Tensors, symbols and regions: what all three levels share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/expr.h"
#include "ir/ids.h"

namespace mkc {

enum class DType : uint8_t { f32, f16, bf16, e4m3, i32 };  // e4m3: of caches only
int64_t dtype_bytes(DType t);
const char* dtype_name(DType t);                // "f32", "f16", "bf16", "e4m3", "i32"
Result<DType> parse_dtype(std::string_view s);  // the same names

// A size known at run time, or a list of such: "T" tokens in this step, "B" requests, "kv_len[B]" positions
// of each request in the cache including this step's, "active_experts" experts that have tokens. The step's
// values lie within [bounds.lo, bounds.hi].
struct Symbol {
  std::string name;
  Bounds bounds;  // of each element of a list
  Loc loc;
  Expr length{};  // of a list, over earlier symbols that are no lists; 0: no list
  // Intervals that begin at its elements, as long as those of this earlier list, lie end to end from 0 on: in
  // their order, so that element i is the sum of the elements before i, but where it is cut. Invalid: given.
  SymbolId sums{};
  // Found within the step: its values at a grid are those of the route whose tables the grid reads. The
  // table of a symbol is the operand whose role is its name.
  bool routed = false;
  // Made by every worker when a step begins: the blocks that rows are cut into (row_blocks() in values.h).
  bool cut = false;
  bool is_list() const { return !length.is_const(0); }
  bool operator==(const Symbol&) const = default;
};

enum class TensorKind : uint8_t {
  kInput,       // written by the host for each step (tokens, positions)
  kWeight,      // a checkpoint tensor, or packed from several (see Packing)
  kActivation,  // lives within one step, in the workspace
  kCache,       // keys and values: kept between steps
  kOutput,      // read by the host after the step (logits, next tokens)
  kTable,       // computed once at load from the description (RoPE cosines and sines)
};

// How a weight operand of a product is laid out for the loader: rows of the sources are taken `group` at a
// time from each source in turn (one source: plain order), zero-padded to a multiple of kTileRows, and cut
// into tiles of kTileRows x tile columns. See docs/packing.md and runtime/packing.h.
struct Packing {
  std::vector<TensorId> sources;  // [rows, cols] each, same dtype and shape
  int64_t group = 0;              // 0 with one source; 8 for gate/up
  bool operator==(const Packing&) const = default;
};

constexpr std::string_view kExpertMark = "{e}";

struct Tensor {
  std::string name;  // unique; printed as %name
  TensorKind kind = TensorKind::kActivation;
  DType dtype = DType::f32;
  std::vector<Expr> shape;  // row-major; over symbols only
  // Weight: the checkpoint's name for it. With kExpertMark in it, its first dim stacks the tensors of that
  // name, the number of each in the mark's place. Cache of e4m3: the name of its scales. Otherwise "".
  std::string source;
  Packing packing;  // sources empty: not packed
  Loc loc;
  bool operator==(const Tensor&) const = default;
};

// The checkpoint's name of a weight, of expert `expert` where it stacks several.
std::string source_name(const Tensor& weight, int64_t expert);

// How many tensors of its kind stand before it: inputs and caches are bound at run time in this order.
uint32_t number_in_kind(const Table<TensorId, Tensor>& tensors, TensorId tensor);

// Half-open interval [offset, offset + size) of one dim.
struct Range {
  Expr offset;
  Expr size;
  bool operator==(const Range&) const = default;
};
using Region = std::vector<Range>;  // one Range per dim

// Named parameters of ops and bodies (eps, head_dim, …), sorted by name; doubles print as %.17g with a '.' or
// 'e'.
struct Attr {
  std::string name;
  bool is_float = false;
  int64_t i = 0;
  double f = 0;
  bool operator==(const Attr&) const = default;
};
using Attrs = std::vector<Attr>;
const Attr* find_attr(const Attrs& attrs, std::string_view name);  // nullptr where absent
int64_t int_attr(const Attrs& attrs, std::string_view name, int64_t fallback);
double float_attr(const Attrs& attrs, std::string_view name, double fallback);
void set_attr(Attrs& attrs, std::string_view name, int64_t value);
void set_attr(Attrs& attrs, std::string_view name, double value);

}  // namespace mkc
