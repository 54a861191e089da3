// Level 3: who runs what, when, and where everything lies.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

enum class PlacementKind : uint8_t {
  kTable,   // the worker's stream says which tasks
  kRange,   // extent known at run time: worker w of W takes tasks [n*w/W, n*(w+1)/W)
  kInline,  // run by the worker whose notification completes the task's cell ("last arriver")
};

const char* placement_name(PlacementKind kind);  // "table", "range", "inline"

struct Placement {
  PlacementKind kind = PlacementKind::kTable;
  std::string reason;  // why this kind, for people
  bool operator==(const Placement&) const = default;
};

// `count` consecutive tasks of a grid on one worker; for kRange grids first = count = 0 (computed on the
// device).
struct Segment {
  GridId grid;
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Segment&) const = default;
};

struct RingPlan {
  uint32_t stages = 0;
  uint32_t stage_bytes = 0;
  bool operator==(const RingPlan&) const = default;
};

// Where a tensor lies: byte offset in the arena of its kind (weights and tables; workspace for activations
// and outputs; inputs and caches are bound at run time). Tensors with disjoint lifetimes may overlap in the
// workspace.
struct Slot {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // at the symbols' upper bounds
  bool operator==(const Slot&) const = default;
};

struct Schedule {
  TaskProgram program;
  std::string machine;  // name of the machine description
  uint32_t workers = 0;
  std::vector<Placement> placements;          // by GridId
  std::vector<std::vector<Segment>> streams;  // by worker, in execution order
  RingPlan ring;
  std::vector<Slot> slots;  // by TensorId; bytes 0: takes no arena space (unpacked weight sources, inputs)
  std::vector<uint32_t> event_base;  // by EventId: index of its first counter
  uint32_t event_cells = 0;          // counters of one bank, at the symbols' upper bounds
  uint64_t weight_bytes = 0, workspace_bytes = 0;
  bool operator==(const Schedule&) const = default;
};

}  // namespace mkc
