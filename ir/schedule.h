// A schedule is level 3: it says which worker runs which task, in what order, and where everything lies in
// memory.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

enum class PlacementKind : uint8_t {
  kTable,  // The worker's stream lists its tasks.
  // The extent is known at run time. Worker w of W runs tasks [n*p/W, n*(p+1)/W), where p = (w + rotation)
  // mod W.
  kRange,
  kInline,  // A task runs on the worker whose notification completes the task's cell ("last arriver").
  kQueue,   // Free workers claim the tasks one by one in task order. Each task then waits for its cell.
  kReady,   // Free workers claim the tasks one by one in the order in which their cells are completed.
};

constexpr std::array kPlacementKinds = {PlacementKind::kTable, PlacementKind::kRange, PlacementKind::kInline,
                                        PlacementKind::kQueue, PlacementKind::kReady};
const char* placement_name(PlacementKind kind);  // "table", "range", "inline", "queue", "ready"

// Tells whether workers claim the grid's tasks by ticket.
constexpr bool claims_by_ticket(PlacementKind kind) {
  return kind == PlacementKind::kQueue || kind == PlacementKind::kReady;
}

// How placements are chosen: never by ticket, by ticket wherever possible, or by cost.
enum class Scheduler : uint8_t { kStatic, kDynamic, kAuto };

constexpr std::array kSchedulers = {Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto};
const char* scheduler_name(Scheduler scheduler);  // "static", "dynamic", "auto"

// Products of many tokens round their activations to one of these. kAuto takes 8-bit floats where weights are
// E4M3, they are allowed, and the step is shorter.
enum class Activations : uint8_t { kBf16, kFp8, kAuto };

constexpr std::array kActivations = {Activations::kBf16, Activations::kFp8, Activations::kAuto};
const char* activations_name(Activations activations);  // "bf16", "fp8", "auto"

// PlacementRule is a placement that the user asks for.
struct PlacementRule {
  std::string grids;  // name, or a pattern with *, ? and [...]
  PlacementKind kind = PlacementKind::kTable;
  Loc loc;
  bool operator==(const PlacementRule&) const = default;
};

// SplitRule is a number of parts that the user asks a product to be split into; 1 asks for no split.
struct SplitRule {
  std::string grids;  // name or pattern, as in PlacementRule
  int64_t split_k = 1;
  Loc loc;
  bool operator==(const SplitRule&) const = default;
};

struct Placement {
  PlacementKind kind = PlacementKind::kTable;
  std::string reason;  // why this kind was chosen, for people
  // Index of the counter of tickets claimed so far, for claimed grids (kQueue, kReady).
  uint32_t tickets = 0;
  uint32_t rotation = 0;  // Range grids (kRange) have their grid shares rotated by this many workers.
  bool operator==(const Placement&) const = default;
};

// Segment is `count` consecutive tasks of a grid on one worker. Workers find their tasks of kRange, kQueue
// and kReady on the device: first = count = 0 there.
struct Segment {
  GridId grid;
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Segment&) const = default;
};

constexpr uint32_t kMinRing = 4, kMaxRing = 16;  // ring stages
// Bytes of a worker's shared memory beside the ring: its barriers, its lists of the step and the scratch of
// bodies.
constexpr uint64_t kBesideRingBytes = 35 * 1024;

struct RingPlan {
  uint32_t stages = 0;
  uint32_t stage_bytes = 0;
  bool operator==(const RingPlan&) const = default;
};

constexpr uint64_t kSlotAlignment = 256;  // Slots begin at multiples of this many bytes.
// A slot says where a tensor lies, as a byte offset in the arena of the tensor's kind. One arena holds
// weights and tables. The workspace holds activations and outputs. Inputs and caches are bound at run time.
// Tensors with disjoint lifetimes may overlap in the workspace.
struct Slot {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // size at the symbols' upper bounds
  bool operator==(const Slot&) const = default;
};

struct Schedule {
  TaskProgram program;
  std::string machine;  // name of the machine description
  uint32_t workers = 0;
  std::vector<Placement> placements;          // by GridId
  std::vector<std::vector<Segment>> streams;  // by worker, in execution order
  RingPlan ring;
  // Slots are by TensorId. Slots of 0 bytes take no arena space: unpacked weight sources, inputs.
  std::vector<Slot> slots;
  std::vector<uint32_t> event_base;  // by EventId: index of the event's first counter
  // event_cells counts the counters of one bank at the symbols' upper bounds: cells, logs and tickets.
  uint32_t event_cells = 0;
  uint64_t weight_bytes = 0, workspace_bytes = 0;
  bool operator==(const Schedule&) const = default;
};

// Returns which of the W grid shares of a kRange grid a worker takes.
inline uint32_t range_share(const Schedule& s, GridId grid, uint32_t worker) {
  return (worker + s.placements[grid.index].rotation) % s.workers;
}

// Returns the most cells that bounds() allows the event. Each cell is one counter. V23 limits them to 2^24.
uint32_t max_cells(const TaskProgram& program, EventId event);

// Tells whether a ready grid waits for the event. The completed cells of such an event are logged.
//
// The log's counters follow the counters of the event's cells, at the symbols' upper bounds. The first
// counter of the log is its number of entries. Each further counter is the number of a cell + 1, in the order
// of completion.
bool keeps_log(const Schedule& schedule, EventId event);

// Returns what keeps the grid from being placed as ready, for people; "" where nothing does.
//
// A ready grid has exactly the tasks [c * n, (c + 1) * n) for cell c. The worker that completes a cell must
// know the expected count without a lookup.
std::string why_not_ready(const TaskProgram& program, GridId grid);

// Returns the body whose partial results a grid merges: attend for combine, split_k_partial for
// split_k_reduce. Other bodies merge nothing.
std::optional<BodyKind> merged_body(const TaskGrid& grid);

// Returns what keeps the grid from running inline, for people; "" where nothing does.
//
// An inline grid merges partial results and waits for one event that no other grid awaits. Only the tasks
// whose results it merges notify this event, each a single cell. Strips that are taken together complete
// cells that expect one count.
std::string why_not_inline(const TaskProgram& program, GridId grid);

// Returns what keeps the grid from being placed as `kind`, for people; "" where nothing does.
std::string why_not_placed(const TaskProgram& program, GridId grid, PlacementKind kind);

}  // namespace mkc
