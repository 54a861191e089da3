// A program must satisfy these rules before a pass may rely on it.
//
// Every level
//   V1  Names are given and unique in their table. A grid's coordinates differ from each other and from
//       symbols.
//   V2  Ids lie in their tables.
//   V3  Symbols have 1 <= lower bound <= upper bound < 2^31; lists have 0 <= lower bound. The length of a
//       list is over earlier symbols and lies in 1 to 2^16. A list sums an earlier list of the same length,
//       or none.
//   V4  Expressions name what exists: shapes and event dims name symbols only, extents name earlier
//       coordinates too. Expressions index lists within their lengths and divide by 1 or more. Expressions
//       and all their parts stay within 2^31 - 1 for all values, as the device computes in 32 bits. Those of
//       accesses stay within 2^60, as no device computes them.
//   V5  Tensors have at most 4 dims, each at least 1, and at most 2^40 elements.
//   V6  Weights and tables have constant shapes. A weight, and nothing else, is either packed or from the
//       checkpoint. A weight that is named for each expert has 2 or 3 dims. Only caches are e4m3, and only
//       e4m3 caches may have scales from the checkpoint.
//   V7  A packed weight and its sources are matrices. The sources are weights of the checkpoint, all of one
//       shape. The dtype and the columns of the packed weight are those of its sources, and its rows are the
//       sum of their rows. The groups of several sources make a strip of 16 rows.
//   V8  A rope line names an f32 table of 2 columns for each frequency. Each table has one rope line. The
//       scale and the frequencies are positive and finite.
//   V9  Attributes are sorted by name, each once.
//
// Ops
//   V10 Inputs and outputs are as many as the op has.
//   V11 Operands are of the kind and dtype that their role asks for.
//   V12 Operands have the shapes that their roles ask for.
//   V13 Attributes are those of the op, of its types, within 0 and 2^24. A stack has as many experts as the
//       route of its choices.
//   V14 An op reads what an earlier op wrote. An op writes activations and outputs that no other op has
//       written, and caches. Every output is written.
//
// Tasks
//   V15 A grid's accesses have the roles of its body, each once, and once more where a part streams. The
//       roles next_norm, x_bf16 and sum_squares go together. So do bf16 rows and sum_squares, and other rows
//       and a norm. An expert reads x and the table token, or else rows, without sum_squares.
//   V16 Accessed tensors are of the kind and dtype that the role asks for.
//   V17 Accessed tensors have the shapes that the roles ask for. Best values have a column for each 16
//       logits, and sums of squares one for each task of a row. Gathered rows are R of T. A rotation table
//       has a row for each position of a context. A step routes to at most 512 experts.
//   V18 Attributes are those of the body, of its types, within 0 and 2^24. Attention has at least 1 head and
//       1 element a head; its heads are a multiple of its key/value heads. Its heads have an even number
//       of elements, at most 256. The top_k of an expert is the lower bound of active_experts, and a
//       route's at most 16.
//   V19 Coordinates are as many as the body has, with the extents of the body. Extents are at least 1, or at
//       least 0 for append. A grid has at most 2^24 tasks. Only the last extent may depend on a coordinate,
//       and only on the one before it.
//   V20 Regions have a range for each dim of the tensor. Regions lie within the tensor for all values or are
//       empty.
//   V21 An activation or output that a grid reads is written by an earlier grid.
//   V22 Only weights and caches stream, and only into reads.
//   V23 Events have dims of at least 1, at most 2^24 cells by max_cells() (schedule.h), and expect 0 or more.
//   V24 A wait names one existing cell for each task.
//   V25 A notification's box lies within the event or is empty.
//   V26 An event that is awaited is notified, and an event that is notified is awaited.
//
// Schedules
//   V27 A schedule has workers, each with a stream. Each grid has a placement, each tensor a slot and each
//       event a counter base.
//   V28 A segment of a table grid holds tasks of the grid. A segment of a range or claimed grid says 0 of 0.
//       Inline grids have no segments.
//   V29 Slots begin at multiples of 256 bytes and lie in the arena of their kind. Inputs and caches have no
//       slots. An arena has at most 2^62 bytes.
//   V30 The counters of an event lie among those of the schedule.
//   V35 A grid is placed as its tasks allow (schedule.h, why_not_placed). The notifications of one grid run
//       at most one inline grid.
//
// Routed symbols (in task programs only)
//   V31 A list is routed exactly if its length is. No shape depends on a routed symbol. A grid that mentions
//       a routed symbol, or has an event that does, reads a table with room for it. The table is the operand
//       with the symbol's name, and all grids of an event have it from one table. Routed lists stand in
//       regions only. The event of a lookup depends on no routed symbol. One route grid writes all that a
//       grid looks up, and the rows of a token's choices.
//
// Cut symbols
//   V32 A program has all symbols of row blocks (values.h), over the lists of its requests, or none. Op
//       graphs have none.
//
// Bodies (in task programs only)
//   V33 Accesses have the regions that their body touches and stream where the body does. Coordinates have
//       the body's extents (footprint.h).
//   V34 Symbols that the host or the device fills have the bounds that their values reach. A schedule has no
//       other symbols, at most 256 tokens T and at most 64 requests B. Lists that the host fills have length
//       B.
//
// The prover checks cycles, counts and the order of reads and writes (scheduler/proof/prove.h).
#pragma once

#include <vector>

#include "ir/parse.h"

namespace mkc {

// Returns every violation, as `FILE:LINE:COL: error: V7: …`; none for a valid program. A violation is located
// in the text if `places` is given, else at the object's own place. V1 to V4 are checked first, the other
// rules only where these hold. Requires what print() requires.
std::vector<Error> verify(const OpGraph& graph, const Places* places = nullptr);
std::vector<Error> verify(const TaskProgram& program, const Places* places = nullptr);
std::vector<Error> verify(const Schedule& schedule, const Places* places = nullptr);
std::vector<Error> verify(const Module& module, const Places* places = nullptr);

}  // namespace mkc
