// Level 3: who runs what, when, and where everything lies.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

enum class PlacementKind : uint8_t {
  kTable,   // the worker's stream says which tasks
  kRange,   // extent known at run time: of worker w of W, tasks [n*p/W, n*(p+1)/W), p = (w + rotation) mod W
  kInline,  // run by the worker whose notification completes the task's cell ("last arriver")
  kQueue,   // workers that are free claim task after task, in their order; each waits for its cell
  kReady,   // workers that are free claim task after task, in the order in which their cells are completed
};

constexpr std::array kPlacementKinds = {PlacementKind::kTable, PlacementKind::kRange, PlacementKind::kInline,
                                        PlacementKind::kQueue, PlacementKind::kReady};
const char* placement_name(PlacementKind kind);  // "table", "range", "inline", "queue", "ready"

// Whether workers claim the grid's tasks by tickets.
constexpr bool claims_by_ticket(PlacementKind kind) {
  return kind == PlacementKind::kQueue || kind == PlacementKind::kReady;
}

// How the kinds of placement are chosen: without tickets, by tickets wherever possible, or by cost.
enum class Scheduler : uint8_t { kStatic, kDynamic, kAuto };

constexpr std::array kSchedulers = {Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto};
const char* scheduler_name(Scheduler scheduler);  // "static", "dynamic", "auto"

// A placement that the user asks for.
struct PlacementRule {
  std::string grids;  // name, or pattern with *, ? and [...]
  PlacementKind kind = PlacementKind::kTable;
  Loc loc;
  bool operator==(const PlacementRule&) const = default;
};

// Into how many parts the user asks a product to be split; 1: not at all.
struct SplitRule {
  std::string grids;  // as in PlacementRule
  int64_t split_k = 1;
  Loc loc;
  bool operator==(const SplitRule&) const = default;
};

struct Placement {
  PlacementKind kind = PlacementKind::kTable;
  std::string reason;     // why this kind, for people
  uint32_t tickets = 0;   // of kQueue and kReady: the counter that says how many tickets have been claimed
  uint32_t rotation = 0;  // of kRange: by how many workers the shares are rotated
  bool operator==(const Placement&) const = default;
};

// `count` consecutive tasks of a grid on one worker; first = count = 0 where the worker finds its tasks on
// the device: kRange, kQueue, kReady.
struct Segment {
  GridId grid;
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Segment&) const = default;
};

constexpr uint32_t kMinRing = 4, kMaxRing = 16;  // stages
// A worker's shared memory holds the ring, and this: its barriers, lists of the step, and the bodies'
// scratch.
constexpr uint64_t kBesideRingBytes = 35 * 1024;

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
  uint32_t event_cells = 0;  // counters of one bank, at the symbols' upper bounds: cells, logs, tickets
  uint64_t weight_bytes = 0, workspace_bytes = 0;
  bool operator==(const Schedule&) const = default;
};

// Of a kRange grid: which of the W shares a worker takes.
inline uint32_t range_share(const Schedule& s, GridId grid, uint32_t worker) {
  return (worker + s.placements[grid.index].rotation) % s.workers;
}

// Cells of the event at the symbols' upper bounds, each a counter.
uint32_t max_cells(const TaskProgram& program, EventId event);

// Whether a ready grid waits for the event. Then its completed cells are logged, in the counters behind those
// of its cells at the symbols' upper bounds: how many entries, then each cell's number + 1, in the order of
// their completion.
bool keeps_log(const Schedule& schedule, EventId event);

// What keeps the grid from being placed as ready, for people; "": nothing. The tasks of cell c must be [c *
// n, (c + 1) * n) of the grid's, and whoever completes a cell must know what it expects without looking up
// which.
std::string why_not_ready(const TaskProgram& program, GridId grid);

// Whose partial results a grid merges: attend of combine, split_k_partial of split_k_reduce; nothing for
// other bodies.
std::optional<BodyKind> merged_body(const TaskGrid& grid);

// What keeps the grid from running inline, for people; "": nothing. It merges partial results and waits for
// one event, which nobody else awaits; only the tasks that it merges notify it, each a single cell.
std::string why_not_inline(const TaskProgram& program, GridId grid);

// What keeps the grid from being placed so, for people; "": nothing.
std::string why_not_placed(const TaskProgram& program, GridId grid, PlacementKind kind);

}  // namespace mkc
