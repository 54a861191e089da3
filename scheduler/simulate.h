// Discrete-event simulation of one step: the schedule, task by task, on a machine description.
//
// Requires: a proved schedule. The model, its parameters and what was not validated: docs/simulate.md. The
// same input gives the same answer.
#pragma once

#include <array>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

// Why a worker's share of the stream stands still.
enum class IdleCause : uint8_t {
  kRamp,       // the step's first bytes are on their way
  kLatency,    // its ring is empty, copies are issued; or its loader claims a task
  kLookup,     // its loader waits to learn which experts' weights to bring
  kEvent,      // its ring is full, and its consumers wait for an event
  kConsumers,  // its ring is full, and its consumers are at work
  kReread,     // strips come from L2 again, for further groups of tokens
  kTail,       // it has nothing left to load
  kWorker,     // its copies come as fast as one worker takes them
};
constexpr size_t kIdleCauses = 8;
const char* idle_cause_name(IdleCause cause);  // "ramp", "latency", …
const char* idle_cause_text(IdleCause cause);  // what the above says of it

// One task on its worker: reached; begun, its waits are over; ready, its first operands are there; worked,
// its last product is done; ended, it notifies. From `worked` of a producer to `ready` of the consumer is a
// hop.
struct TaskTime {
  static constexpr uint32_t kNone = UINT32_MAX;
  GridId grid;
  uint32_t worker = 0;
  uint64_t bytes = 0;         // that it must move: Simulation::bytes is their sum
  uint32_t previous = kNone;  // task on the same worker
  uint32_t awaited = kNone;   // task whose notification it stood still for, the last of them
  double reached_ns = 0, begin_ns = 0, ready_ns = 0, worked_ns = 0, end_ns = 0;
  double starved_ns = 0;  // of ready to worked: for tiles that had not arrived
};

// Tiles of one task that arrive at a worker without a break.
struct StreamSpan {
  uint32_t worker = 0;
  uint32_t task = 0;
  double begin_ns = 0, end_ns = 0;
};

struct Simulation {
  double ns = 0;               // of the step
  double floor_ns = 0;         // bytes at the stream ceiling; never above ns
  uint64_t bytes = 0;          // that must move: weights that are read, keys and values of the context
  uint64_t padding_bytes = 0;  // moved beside them: padding of packed tiles
  std::array<double, kIdleCauses>
      idle_ns{};                   // of the stream, by IdleCause; with the moved bytes it makes up ns
  std::vector<TaskTime> tasks;     // by task, as expand_step numbers them
  std::vector<StreamSpan> stream;  // by its end, where asked for
};

struct SimulateOptions {
  bool stream = false;    // keep the spans of the stream
  bool run_ahead = true;  // false: a task's copies are issued once its waits are over
  bool fused = true;  // false: ops that ride in others' tasks would each cost a hop, as grids of their own
};

// When the first bytes of a stream that has stood still come, by the smallest of the cold bursts.
double ramp_ns(const Machine& machine);

// `symbols` by SymbolId. Errors: those of rules 1 and 4 of prove.h at these values.
Result<Simulation> simulate(const Schedule& schedule, const Machine& machine, std::vector<int64_t> symbols,
                            const SimulateOptions& options = {});

}  // namespace mkc
