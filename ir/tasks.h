// Task grids with region maps are level 2, together with the events derived from them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/tensor.h"
#include "runtime/abi/weight_format.h"

namespace mkc {

// BodyKind says what one task of a grid computes. docs/ir.md lists the operand roles (Access::role) of each
// body, and the verifier checks them. Activations are f32, except those that only products read.
enum class BodyKind : uint8_t {
  kEmbed,  // one token row: out[t, :] = table[tokens[t], :]
  // A product task multiplies a strip of kTileRows weight rows with all T tokens: prologue (norm), x·wT,
  // epilogue. The epilogue holds bias, gate, residual and the best logit of the strip.
  kProduct,
  // An append task writes keys and values to the cache: one block of a request's rows, one key/value head.
  kAppend,
  // An attend task computes one partial of attention for one key/value head and one block of rows. A partial
  // is the maximum, the sum and the weighted values over one part of a request's context.
  kAttend,
  // A combine task merges the partials of one key/value head and one block in the order of their positions.
  kCombine,
  // A sample task picks the token after a request's last row, by the request's settings (docs/sampling.md).
  kSample,
  // A route task chooses experts and their routing weights for all tokens. A route task also lists the active
  // experts and the rows of each.
  kRoute,
  // An expert task multiplies some strips of 16 weight rows of one active expert with the rows of that
  // expert.
  kExpert,
  // An expert_sum task computes some columns of one token row. The task adds the token's expert results,
  // weighted by their routing weights, and a residual.
  kExpertSum,
  // A split_k_partial task multiplies one strip of a split product and leaves the sums of the K slices of one
  // part.
  kSplitKPartial,
  // A split_k_reduce task adds the K slices of one strip in order and applies the product's epilogue.
  kSplitKReduce,
  // A row task computes some columns of one row: an optional norm, an optional rotation of heads, then steps
  // for each element (runtime/abi/row_steps.h).
  kRow,
  // A quantize task rounds one row to 8-bit floats (E4M3) with one scale, for products by warpgroups.
  kQuantize,
};
constexpr std::array kBodyKinds = {BodyKind::kEmbed,         BodyKind::kProduct,      BodyKind::kAppend,
                                   BodyKind::kAttend,        BodyKind::kCombine,      BodyKind::kSample,
                                   BodyKind::kRoute,         BodyKind::kExpert,       BodyKind::kExpertSum,
                                   BodyKind::kSplitKPartial, BodyKind::kSplitKReduce, BodyKind::kRow,
                                   BodyKind::kQuantize};
const char* body_name(BodyKind kind);  // "embed", "product", …

constexpr int64_t kTileRows = mkrt::kStripRows;
constexpr int64_t kMaxStrips = 4;  // most strips of one task of an expert
// A weight's columns are cut into K slices. Each K slice is summed alone, then the slices are added in order.
constexpr int64_t kKSlices = mkrt::kKSlices;
constexpr int64_t kExpertSumColumns = 512;  // columns of one task of expert_sum
constexpr int64_t kRowColumns = 512;        // columns of one task of a row grid without a norm of whole rows
constexpr int64_t kMaxTasks = 1 << 24;      // of a grid
constexpr int64_t kMaxSampled = 1 << 18;    // largest vocabulary that a sample task takes

struct Access {
  std::string role;  // "x", "weight", "norm", "bias", "residual", "out", …
  TensorId tensor;
  Region region;  // over the grid's coordinates and symbols
  // The loader brings a streamed operand in ahead of events: no task writes it in the same step. Parts of the
  // operand that tasks of the step do write are a separate read.
  bool stream = false;
  bool operator==(const Access&) const = default;
};

struct Coord {
  std::string name;
  // The extent is an expression over symbols. The last coordinate's extent may also use the coordinate before
  // it. A coordinate runs from 0.
  Expr extent;
  bool operator==(const Coord&) const = default;
};

// A task waits until the cell is complete.
//
// A lookup is done once for all tasks of a worker, by its loader and by its consumers. The tables that the
// lookup makes available say which tasks the worker has and what they stream.
struct Wait {
  EventId event;
  std::vector<Expr> cell;  // one expression per event dim, over the grid's coordinates
  bool lookup = false;     // a lookup has the same cell for all tasks
  bool operator==(const Wait&) const = default;
};

// The finished task adds 1 to every cell of the box.
struct Notify {
  EventId event;
  Region cells;  // one Range per event dim, over the grid's coordinates; an empty box notifies nothing
  bool operator==(const Notify&) const = default;
};

struct TaskGrid {
  std::string name;  // unique; printed as %name
  BodyKind body = BodyKind::kProduct;
  std::vector<Coord> coords;  // row-major task numbering, the last coordinate fastest
  std::vector<Access> reads;
  std::vector<Access> writes;
  std::vector<Wait> waits;
  std::vector<Notify> notifies;
  Attrs attrs;            // eps, head_dim, window, …
  std::vector<OpId> ops;  // ops that the grid implements, as indices into the op graph
  int32_t layer = -1;
  Loc loc;
  bool operator==(const TaskGrid&) const = default;
};

// Returns the operand of a role, or null where the grid has none. `written` selects among the writes instead
// of the reads.
const Access* find_operand(const TaskGrid& grid, std::string_view role, bool written = false);

// Tells whether the loader brings an operand of the grid's tasks in ahead of events.
bool streams(const TaskGrid& grid);

struct Domain;
// Tells whether the grid has at most kMaxTasks tasks for all values of the symbols of `at_symbols`.
bool has_few_tasks(const TaskGrid& grid, Domain at_symbols);

// Tells whether the grid's tasks multiply with weights: product, split_k_partial and expert.
bool multiplies(const TaskGrid& grid);

// Returns the number of 16-row strips that one task multiplies: the attribute `strips` of an expert, else 1.
int64_t task_strips(const TaskGrid& grid);
// Tells whether a worker takes consecutive strips together: product and split_k_partial. Strips taken
// together lie in one part of a split product.
bool multiplies_in_blocks(const TaskGrid& grid);
// Returns the number of parts that a product is split into; 1 means that it is not split.
int64_t split_k(const TaskGrid& grid);
// Returns the rows that the grid multiplies: of all tokens, or of an expert. The result is null where there
// are none.
const Access* multiplied_rows(const TaskGrid& grid);

// An event is an array of counters. A cell is complete when `expect` notifications have reached it.
struct Event {
  std::string name;        // unique; printed as @name
  std::vector<Expr> dims;  // one expression per dim, over symbols; empty: one cell
  Expr expect;             // over the cell's coordinates and symbols
  Loc loc;
  bool operator==(const Event&) const = default;
};

struct TaskProgram;
// Returns the number of rows of a product's result, whether the grid makes all of each sum or a part of it.
const Expr& rows_made(const TaskProgram& program, const TaskGrid& grid);
// Returns the most rows that a grid with multiplied_rows() may find in them.
int64_t max_multiplied_rows(const TaskProgram& program, const TaskGrid& grid);
// kMinWgmmaFrom is the smallest number of tokens from which warpgroups may multiply. kDefaultWgmmaFrom
// applies where the user asks for nothing else.
constexpr uint32_t kMinWgmmaFrom = 33, kDefaultWgmmaFrom = 65;
// Returns the number of tokens from which warpgroups multiply in this product, on targets that have such
// instructions. A split product does not use them; its number is the one that it would have unsplit.
//
// 0 means never. Weights without 2-byte elements in rows of whole 16-byte pieces cannot use the instructions.
// Batch-invariant programs do not use them either: their sums have one order for all numbers of tokens.
uint32_t wgmma_from(const TaskProgram& program, const TaskGrid& grid);

// Tells whether the grid is a product, or parts of one, whose weights are E4M3.
bool multiplies_e4m3(const TaskProgram& program, const TaskGrid& grid);
// Returns the number of tokens from which a product multiplies its activations as 8-bit floats (E4M3).
// Returns 0 if it never rounds them: nothing asks for it, or the weights are no E4M3. Such a product uses no
// warpgroups.
uint32_t fp8_from(const TaskProgram& program, const TaskGrid& grid);
// Products of fewer tokens than kMinFp8From wait for their weights, not for matrix instructions.
constexpr uint32_t kMinFp8From = 33;

// Tells whether warpgroups multiply codes of E4M3 that a quantize grid has left, in place of rows of x.
bool reads_codes(const TaskGrid& grid);

struct TaskProgram {
  std::string name;
  Table<SymbolId, Symbol> symbols;
  Table<TensorId, Tensor> tensors;
  // The grids are in program order. The meaning of a program is the sequential execution of its grids in this
  // order.
  Table<GridId, TaskGrid> grids;
  Table<EventId, Event> events;
  std::vector<RopeTable> ropes;
  bool operator==(const TaskProgram&) const = default;
};

}  // namespace mkc
