// Simulator holds the state of a simulation. Each worker has one loader and one consumer. Timers and the two
// shared bandwidths drive them. This header is internal to simulate.
#pragma once

#include <deque>

#include "scheduler/simulate/simulate.h"
#include "scheduler/simulate/simulate_pipe.h"
#include "scheduler/simulate/simulate_timers.h"
#include "scheduler/work/work.h"

namespace mkc {

// The tasks of a worker's runs in order. Tasks of a claimed run come from tickets.
struct TaskWalk {
  size_t run = 0, last_run = 0;
  uint32_t next = 0;  // next task of the run; number of claimed tasks in a claimed run

  bool done() const { return run == last_run; }
  const Run& at(const Step& step) const { return step.runs[run]; }  // requires !done()
  uint32_t take(const Step& step);                                  // requires a run that is not claimed
  void leave_run() { ++run, next = 0; }
};

struct Tile {
  uint32_t task = 0;
  uint32_t bytes = 0;
  bool again = false;  // comes from L2
};

// A loader issues copies in stream order as ring stages become free. The copies arrive one after the other.
struct Loader {
  void begin(uint32_t t, const TaskWorks& works) {
    task = t;
    work = works.of(t);
    pass = tile = 0;
  }

  TaskWalk walk;
  uint32_t task = 0;
  TaskWork work;
  uint32_t pass = 0, tile = 0;  // next tile of the task to be issued
  bool done = false;
  bool for_event = false;  // waits to look up what the task streams, until other tasks have written it
  // for_ticket: the loader waits for a ticket that it claims. for_told: the loader waits until the consumers
  // tell it the task that they claim.
  bool for_ticket = false, for_told = false;
  uint32_t ticket = 0;
  std::deque<uint32_t> handed;  // tasks claimed for the consumers; kNone at the end of a grid

  double free_ns = 0;       // when the loader has issued the last of its copies
  std::deque<Tile> issued;  // tiles that have not arrived, in order
  uint32_t begun = 0;       // issued tiles that are past the latency
  bool arriving = false;    // the first issued tile takes part in a bandwidth
  double since_ns = 0;      // when that tile began to arrive
  uint32_t taken = 0;       // stages that are not free
  uint32_t filled = 0;      // stages that hold a tile which is not taken up yet
};

// A consumer runs one task after the other, each through these phases.
struct Consumer {
  enum Phase : uint8_t { kNext, kClaim, kWait, kStart, kCold, kBusy, kTake, kRelease, kEnd, kNotify, kDone };
  Phase phase = kNext;
  bool for_event = false, for_stage = false, for_task = false;  // what the consumer waits for
  uint32_t ticket = 0;
  double claiming_since_ns = 0;
  // The task that completed the cell of the ticket, if the consumer waited for that cell.
  uint32_t completed_by = TaskTime::kNone;
  TaskWalk walk;
  std::deque<uint32_t> inline_tasks;  // tasks that run before the next task of the walk
  uint32_t task = TaskTime::kNone;    // the previous task, between tasks
  TaskWork work;
  bool first_of_run = false;
  // The position of the task in its block of strips, and the number of strips in the block.
  uint32_t place = 0, block = 1;
  bool ends_block() const { return place + 1 == block; }
  uint32_t wait = 0, pass = 0, tile = 0;
  double seen_ns = 0;                      // time that follows the notification it waits for
  double took_ns = 0, took_flowed_ns = 0;  // clock and flowed_ns_ when the last stage was taken
  double starved_since_ns = 0;
};

class Simulator {
 public:
  Simulator(const Step& step, const Machine& machine, const SimulateOptions& options);
  // Simulates the step to its end.
  Simulation run();

 private:
  uint32_t workers() const { return step_.schedule->workers; }
  void set_timer(double at_ns, Timer::Kind kind, uint32_t w);
  // Sets a timer for the first byte of a read issued at `issued_ns`: after its latency and the latency of the
  // first ramp.
  void read_later(Timer::Kind kind, uint32_t w, double issued_ns);
  TimerQueue* next_timers();  // the queue with the next timer; null where no timer is set
  void add_span(uint32_t w, const Tile& tile);
  void fire(const Timer& timer);
  // Advances the clock and charges the unused bandwidth to the idle causes.
  void pass_time(double to_ns);
  IdleCause idle_cause(uint32_t w) const;
  // note_stream must be called after every change that may affect the state of a worker's loader.
  void note_stream(uint32_t w);

  // Tells whether the loader may issue now. Without run-ahead it waits until the task's waits are over. On a
  // processor it stands for the prefetches of a block's strips.
  bool may_issue(uint32_t w) const;
  // Issues tiles until the ring is full or the loader has to wait.
  void issue_tiles(uint32_t w);
  // Begins the wait of a loader for its lookup. Returns false where there is none.
  bool begin_lookup(uint32_t w);
  // Begins the arrival of the loader's first tile that is past its latency.
  void begin_tile(uint32_t w);
  // Moves the tile that has arrived to a filled stage.
  void end_tile(uint32_t w);

  void resume(uint32_t w);  // runs until the consumer spends time or has to wait
  bool go_on(uint32_t w);
  // Sets a timer for a consumer that is busy for `ns`. Returns false where `ns` is 0.
  bool takes(uint32_t w, double ns);
  bool next_task(uint32_t w);
  void begin_task(uint32_t w, uint32_t task, uint32_t place = 0, uint32_t block = 1);
  bool begin_wait(uint32_t w);
  double notified_ns(uint32_t cell) const;  // measured from the end of the task that completed the cell
  bool take_stage(uint32_t w);
  // Returns the share of its ceiling that the stream has reached since the worker took its last stage.
  double stream_share(const Consumer& c) const;
  void release_stage(uint32_t w);
  // Functions for claimed runs.
  bool is_ready(GridId grid) const;
  bool loader_claims(GridId grid) const;
  void claim_for_loader(uint32_t w);
  // Hands the loader's ticket to the consumers: its task, or kNone where no task is left.
  void hand_over(uint32_t w);
  // Tells the loader the task that its consumers have claimed, or kNone where no task is left.
  void hand_back(uint32_t w, uint32_t task);
  bool claim_for_consumer(uint32_t w);
  bool take_claimed(uint32_t w);
  // Finds the task of the consumer's ticket in the log. Returns false where the entry is not there yet.
  bool look_in_log(uint32_t w, uint32_t& task);
  void enter_in_log(uint32_t cell);

  // Returns the time of a task from its last product to its notification.
  double end_ns(const Consumer& c) const;
  void notify(uint32_t w, uint32_t task);  // notifies for each task of the block that ends

  const Step& step_;
  const Machine& m_;
  const SimulateOptions options_;
  const TaskWorks works_;
  const bool runs_ahead_;
  const double ramp_ns_;  // the stream's first bytes arrive no earlier
  double now_ns_ = 0;
  double flowed_ns_ = 0;  // the time that the stream would have taken at its ceiling for what has arrived
  uint64_t timers_made_ = 0;
  // The share of the ceiling that this number of reads uses.
  uint32_t share_of_reads_ = 0;
  double share_ = 0;
  // Reads have a queue of their own: they begin long after other timers that are set at the same time.
  TimerQueue timers_, reads_to_begin_;
  Pipe memory_, l2_;
  std::vector<Loader> loaders_;
  std::vector<Consumer> consumers_;
  std::vector<uint32_t> missing_;                // by cell: notifications that are still missing
  std::vector<uint32_t> completed_by_;           // by cell: task
  std::vector<std::vector<uint32_t>> waiting_;   // by cell: workers
  std::vector<std::vector<uint32_t>> lookups_;   // by cell: workers whose loaders wait
  std::vector<uint32_t> lookup_cell_;            // by GridId: the cell that its loaders wait for, or kNone
  std::vector<uint32_t> inline_task_;            // by cell: its inline task, or kNone
  std::vector<uint32_t> tickets_;                // by GridId: tickets claimed so far
  std::vector<std::vector<uint32_t>> logs_;      // by EventId: cells in the order of their completion
  std::vector<std::vector<uint32_t>> claimers_;  // by EventId: workers that wait for an entry of its log
  std::vector<uint32_t> reads_;                  // by worker: its reads from memory in progress
  std::vector<size_t> span_;                     // by worker: its last span in result_.stream
  std::vector<uint8_t> stream_;                  // by worker: IdleCause, or kFlows
  std::array<uint32_t, kIdleCauses + 1> stream_count_{};
  Simulation result_;

  static constexpr uint32_t kNone = TaskTime::kNone;
  static constexpr uint8_t kFlows = kIdleCauses;
};

}  // namespace mkc
