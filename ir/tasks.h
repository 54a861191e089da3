// Level 2: task grids with region maps, and the event tensors derived from them.
#pragma once

#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/tensor.h"

namespace mkc {

// What one task of a grid computes. Operand roles (Access::role) of each are listed in docs/ir.md and checked
// by the verifier; activations are f32 but for those that only products read.
enum class BodyKind : uint8_t {
  kEmbed,    // one token row: out[t, :] = table[tokens[t], :]
  kProduct,  // a strip of kTileRows weight rows for all T tokens: prologue (norm), x·wT, epilogue (bias,
             // gate, residual, best logit of the strip)
  kAppend,   // keys and values of a block of a request's rows, one key/value head, to the cache
  kAttend,   // one piece of a request's context for one key/value head and a block of its rows: partial max,
             // sum and weighted values
  kCombine,  // merges the pieces of one key/value head of a block in piece order
  kSample,   // one request: the token that follows its last row, as it asks (docs/sampling.md)
  kRoute,    // all tokens: each one's experts and shares; the experts that have tokens, and whose these are
  kExpert,   // some strips of 16 weight rows of an expert that has tokens, for these
  kExpertSum,  // some columns of one token row: the results of its experts, by their shares, and a residual
  kSplitKPartial,  // of a product that is split: a strip, and the K slices of columns of one part: their sums
  kSplitKReduce,   // of a product that is split: adds a strip's K slices in order; the product's epilogue
};
const char* body_name(BodyKind kind);  // "embed", "product", …

constexpr int64_t kTileRows = 16;
constexpr int64_t kMaxStrips = 4;         // of a task of an expert
constexpr int64_t kKSlices = 8;           // of a weight's columns: each is added up, and then all in order
constexpr int64_t kSumColumns = 512;      // of a task of expert_sum
constexpr int64_t kMaxSampled = 1 << 18;  // entries of a vocabulary that sample takes

struct Access {
  std::string role;  // "x", "weight", "norm", "bias", "residual", "out", …
  TensorId tensor;
  Region region;  // over the grid's coordinates and symbols
  // Brought in by the loader ahead of events: no task writes it in the same step. What others write of the
  // same operand is another read.
  bool stream = false;
  bool operator==(const Access&) const = default;
};

struct Coord {
  std::string name;
  Expr extent;  // over symbols and, of the last, the coordinate before it; the coordinate runs from 0
  bool operator==(const Coord&) const = default;
};

// The task waits until the cell is complete. A lookup is done once for all tasks of a worker, by its loader
// and its consumers, since the tables that are there then say which tasks these are and what they stream.
struct Wait {
  EventId event;
  std::vector<Expr> cell;  // one per event dim, over the grid's coordinates
  bool lookup = false;     // then the cell is the same for all tasks
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
  Attrs attrs;            // eps, head_dim, piece, …
  std::vector<OpId> ops;  // the ops it stands for, as indices into the op graph
  int32_t layer = -1;
  Loc loc;
  bool operator==(const TaskGrid&) const = default;
};

// The operand of a role; null where the grid has none. `written`: of the role among the writes.
const Access* find_operand(const TaskGrid& grid, std::string_view role, bool written = false);

// Whether a loader brings something for its tasks ahead of events.
bool streams(const TaskGrid& grid);

// Whether its tasks multiply with weights: of a product or its part, or of an expert's.
bool multiplies(const TaskGrid& grid);

// Strips of 16 weight rows that a task of it multiplies: `strips` of an expert, or 1.
int64_t task_strips(const TaskGrid& grid);
// Whether a worker takes strips that follow each other together: those of one part, where it is split.
bool multiplies_in_blocks(const TaskGrid& grid);
// Into how many parts a product is split; 1: it is not.
int64_t split_k(const TaskGrid& grid);
// The rows that they multiply, of all tokens or of an expert's; null where there are none.
const Access* multiplied_rows(const TaskGrid& grid);

// Array of counters. A cell is complete when `expect` notifications have reached it.
struct Event {
  std::string name;        // unique; printed as @name
  std::vector<Expr> dims;  // over symbols; empty: one cell
  Expr expect;             // over the cell's coordinates and symbols
  Loc loc;
  bool operator==(const Event&) const = default;
};

struct TaskProgram;
// Rows that a product makes, whole or in part.
const Expr& rows_made(const TaskProgram& program, const TaskGrid& grid);
// The tokens from which on warpgroups multiply at least, and where nothing else is asked for.
constexpr uint32_t kMinWgmmaFrom = 33, kDefaultWgmmaFrom = 65;
// The tokens from which on they multiply in a product, and would in one that is split, where there are such
// instructions; 0: never, as its weights are not of 2 bytes in rows of whole 16-byte pieces, or sums are to
// have one order for all numbers of tokens.
uint32_t wgmma_from(const TaskProgram& program, const TaskGrid& grid);

struct TaskProgram {
  std::string name;
  Table<SymbolId, Symbol> symbols;
  Table<TensorId, Tensor> tensors;
  Table<GridId, TaskGrid> grids;  // in program order: the sequential execution of the grids is the meaning
  Table<EventId, Event> events;
  std::vector<RopeTable> ropes;
  bool operator==(const TaskProgram&) const = default;
};

}  // namespace mkc
