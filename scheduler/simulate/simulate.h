// A discrete-event simulation runs one step of a schedule, task by task, on a machine description.
//
// The simulation requires a proved schedule. docs/simulate.md has the model, its parameters and what was not
// validated. The same input gives the same answer.
#pragma once

#include <array>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/machine/machine.h"

namespace mkc {

// The reasons why a worker's share of the stream stands still.
enum class IdleCause : uint8_t {
  kRamp,       // the step's first bytes are on their way
  kLatency,    // its ring is empty and copies are issued, or its loader claims a task
  kLookup,     // its loader waits to learn which experts' weights to bring
  kEvent,      // its ring is full, and its consumers wait for an event
  kConsumers,  // its ring is full, and its consumers are at work
  kReread,     // strips come from L2 again, for further groups of tokens
  kTail,       // it has nothing left to load
  kWorker,     // its copies come as fast as one worker takes them
};
constexpr size_t kIdleCauses = 8;
const char* idle_cause_name(IdleCause cause);  // "ramp", "latency", …
const char* idle_cause_text(IdleCause cause);  // the description above, for people

// TaskTime has the times of one task on its worker. A task is reached when its worker comes to it and begun
// when its waits are over. A task is ready when its first operands are there and worked when its last product
// is done. A task notifies when it has ended. A hop leads from `worked` of a producer to `ready` of the
// consumer.
struct TaskTime {
  static constexpr uint32_t kNone = UINT32_MAX;
  GridId grid;
  uint32_t worker = 0;
  uint64_t bytes = 0;         // bytes that the task must move; Simulation::bytes is their sum
  uint32_t previous = kNone;  // the task before it on the same worker
  uint32_t awaited = kNone;   // the task whose notification it waited for last
  double reached_ns = 0, begin_ns = 0, ready_ns = 0, worked_ns = 0, end_ns = 0;
  double starved_ns = 0;  // time between ready and worked in which it waits for tiles
};

// StreamSpan has tiles of one task that arrive at a worker without a break.
struct StreamSpan {
  uint32_t worker = 0;
  uint32_t task = 0;
  double begin_ns = 0, end_ns = 0;
};

struct Simulation {
  double ns = 0;               // time of the step
  double floor_ns = 0;         // time of the bytes at the stream ceiling; never above ns
  uint64_t bytes = 0;          // bytes that must move: weights that are read, keys and values of the context
  uint64_t padding_bytes = 0;  // bytes that move in addition: padding of packed tiles
  // Idle time of the stream, by IdleCause. With the time of the moved bytes it makes up ns.
  std::array<double, kIdleCauses> idle_ns{};
  std::vector<TaskTime> tasks;     // by task, as expand_step numbers them
  std::vector<StreamSpan> stream;  // by the end of each span's first tile; kept on request
};

struct SimulateOptions {
  bool stream = false;    // keep the spans of the stream
  bool run_ahead = true;  // false: a task's copies are issued once its waits are over
  // Fused stages run in the tasks of other ops. Without fusion each would cost a hop, as a grid of its own.
  bool fused = true;
};

// Simulates one step. `symbols` are by SymbolId. Errors: those of rules 1 and 4 of prove.h at these values.
Result<Simulation> simulate(const Schedule& schedule, const Machine& machine, std::vector<int64_t> symbols,
                            const SimulateOptions& options = {});

}  // namespace mkc
