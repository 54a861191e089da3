// What must hold of a program before a pass may rely on it.
//
// Every level
//   V1  names are given, each once in its table; a grid's coordinates differ from each other and from symbols
//   V2  ids lie in their tables
//   V3  symbols: 1 <= lower bound <= upper bound < 2^31, of lists 0 <= lower bound; lists have a length of
//       earlier symbols, 1 to 2^16, and sum an earlier list as long, or none
//   V4  expressions name what exists (shapes and event dims: symbols only; extents: earlier coordinates too),
//       index lists within their lengths, divide by 1 or more, and stay within 2^60, all their parts
//       included, for all values
//   V5  tensors have at most 4 dims, each at least 1, and at most 2^40 elements
//   V6  weights and tables have constant shapes; a weight, and nothing else, is either packed or from
//       the checkpoint, where one named for each expert has 3 dims; only caches are e4m3, and only then may
//       have scales from the checkpoint
//   V7  a packed weight and its sources are matrices; the sources are weights of the checkpoint, of one shape
//       and of the packed dtype and columns, whose rows add up; the groups of several make a strip of 16 rows
//   V8  a rope line is of an f32 table of 2 columns for each frequency, each table has one, and scale and
//       frequencies are positive and finite
//   V9  attributes are sorted by name, each once
// Ops
//   V10 inputs and outputs are as many as the op has
//   V11 operands are of the kind and dtype their role asks for
//   V12 operands have the shapes their roles ask for
//   V13 attributes are those of the op, of its types, within 0 and 2^24
//   V14 an op reads what an earlier one wrote; it writes activations and outputs that none has written, and
//       caches; every output is written
// Tasks
//   V15 a grid's accesses have the roles of its body, each once, and once streamed; next_norm, x_bf16
//       and sum_squares go together, as do bf16 rows and sum_squares, others and a norm
//   V16 accessed tensors are of the kind and dtype the role asks for
//   V17 they have the shapes the roles ask for
//   V18 attributes are those of the body, of its types, within 0 and 2^24
//   V19 coordinates are as many as the body has, of its extents; these are at least 1, of append 0, the tasks
//       at most 2^24;
//       an extent that depends on a coordinate is the last and depends on the one before it
//   V20 regions have a range for each dim of the tensor, and lie within it for all values or are empty
//   V21 an activation or output that a grid reads is written by an earlier one
//   V22 only weights and caches stream, and only into reads
//   V23 events have dims of at least 1, at most 2^24 cells, and expect 0 or more
//   V24 a wait names one existing cell for each task
//   V25 a notification's box lies within the event or is empty
//   V26 an event that is awaited is notified, and the other way round
// Schedules
//   V27 there are workers, each with a stream, and a placement, slot and counter base for each grid, tensor
//       and event
//   V28 a segment of a table grid holds tasks of the grid, one of a range or claimed grid says 0 of 0, and
//       inline grids have none
//   V29 slots begin at multiples of 256 bytes and lie in the arena of their kind; inputs and caches have
//       none
//   V30 the counters of an event lie among those of the schedule
//   V35 a grid is placed as its tasks allow (schedule.h, why_not_placed), and notifications of one grid
//       run at most one inline grid
// Routed symbols (in task programs only)
//   V31 a list is routed exactly if its length is; no shape depends on a routed symbol; a grid that mentions
//       one, or has an event that does, reads a table with room for it, an operand of its name; all grids of
//       an event have it from one table; routed lists stand in regions only; the event of a lookup depends
//       on none
// Cut symbols
//   V32 a program has all symbols of row blocks (values.h), over the lists of its requests, or none; ops none
// Bodies (in task programs only)
//   V33 accesses are of the regions that their body touches, stream where it does, and coordinates have its
//       extents (footprint.h)
//   V34 symbols that the host or the device fills have the bounds that their values reach
// Cycles, counts and the order of reads and writes: scheduler/prove.h.
#pragma once

#include <vector>

#include "ir/parse.h"

namespace mkc {

// Every violation, as `FILE:LINE:COL: error: V7: …`, at the place in the text if `places` is given, else at
// the object's own; none for a valid program. V1 to V4 are looked at first, and the rest only where they
// hold. Requires what print() requires.
std::vector<Error> verify(const OpGraph& graph, const Places* places = nullptr);
std::vector<Error> verify(const TaskProgram& program, const Places* places = nullptr);
std::vector<Error> verify(const Schedule& schedule, const Places* places = nullptr);
std::vector<Error> verify(const Module& module, const Places* places = nullptr);

}  // namespace mkc
