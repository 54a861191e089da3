// A run is one step of a schedule, run by workers and loaders in a random order.
//
// Every wait, notification, ticket and log entry goes through an array of counters, as on the device.
// Counters that overlap therefore count together. Vector clocks say what happens before what in this order of
// the step. They find races whether or not the order shows them.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/memory.h"
#include "tests/attack/schedules/step.h"
#include "tests/attack/schedules/tasks.h"

namespace mkc::attack {

// `Prepared` is what does not depend on the order: tasks, what they touch, counters.
struct Prepared {
  Prepared(const Schedule& s, const Step& step);

  const Schedule& s;
  const Step& step;
  std::vector<GridTasks> tasks;  // tasks by GridId
  Memory memory;
  std::vector<std::vector<int64_t>> dims;  // dims at the step's values, by EventId
  std::vector<uint32_t> log;               // counter of the event's log, by EventId; kNone: it keeps no log
  std::vector<GridId> inlined;             // grid that runs inline behind its tasks, by GridId
  std::vector<uint32_t> use_begin;         // first use by task, and the end behind the last
  std::vector<Use> uses;
  std::vector<std::vector<Use>> looked_up;  // uses of a lookup, by GridId

 private:
  void prepare_events();
  void prepare_uses();
};

class Run {
 public:
  Run(Prepared& prepared, Rng& rng);
  void go();  // throws a Finding

 private:
  struct Blocked {
    uint32_t counter = kNone;  // counter that is waited for; kNone: tasks from the loader, or stages
    std::string why;
  };
  struct Late {
    uint32_t counter;
    std::vector<uint32_t> clocks;
  };
  // `Worker` is the consumers of a worker, `Loader` its loader.
  struct Worker {
    size_t segment = 0;
    bool begun = false, first = true, late = false;
    int64_t next = 0, end = 0;      // tasks of the segment
    std::optional<int64_t> ticket;  // claimed ticket whose task is not known to be ready yet
    std::vector<uint32_t> clocks;   // clocks by thread; the worker's own is its time
    std::vector<Use> read_once;     // what all tasks of the segment read, once it has been read
    std::vector<Late> held_back;    // notifications that wait for the segment's end
    Blocked blocked;
  };
  struct Loader {
    size_t segment = 0;
    bool begun = false;
    int64_t issued = 0, freed = 0, left = 0;  // stages; `left` counts those of the segment or task
    std::deque<int64_t> handed;               // claimed tasks; -1: there are no more
    Blocked blocked;
  };

  const TaskGrid& grid(GridId id) const { return p_.s.program.grids[id]; }
  void step_consumer(uint32_t w);
  bool begin_segment(uint32_t w, GridId id);
  void end_segment(uint32_t w);
  bool next_tasks(uint32_t w, GridId id, std::vector<int64_t>& tasks);
  bool claim_task(uint32_t w, GridId id, std::vector<int64_t>& tasks);
  bool wait_for(uint32_t w, GridId id, const std::vector<int64_t>& tasks);
  void require_stages(GridId id, const std::vector<int64_t>& tasks);
  bool wait_ring(uint32_t w, GridId id);
  void run_tasks(uint32_t w, GridId id, const std::vector<int64_t>& tasks, bool dedupe);
  void free_stages(uint32_t w, GridId id, const std::vector<int64_t>& tasks);

  bool look_up(std::vector<uint32_t>& clocks, Blocked& blocked, GridId id);
  bool poll(std::vector<uint32_t>& clocks, Blocked& blocked, const Wait& wait,
            std::span<const int64_t> coords, GridId id);
  uint32_t counter_of(EventId event, std::span<const int64_t> cell, const char* what, GridId id) const;
  void notify(uint32_t w, GridId id, const std::vector<int64_t>& tasks);
  void notify_box(uint32_t w, GridId id, const Notify& notify, std::span<const int64_t> coords);
  void notify_inline(uint32_t w, GridId id, const Notify& notify, const std::vector<int64_t>& tasks);
  void run_inline(uint32_t w, GridId id, const std::vector<int64_t>& cell);
  void add(uint32_t counter, const std::vector<uint32_t>& clocks);
  uint32_t& at(uint32_t counter);
  int64_t take_ticket(GridId id);
  void join(std::vector<uint32_t>& clocks, uint32_t counter) const;
  void publish(uint32_t counter, const std::vector<uint32_t>& clocks);
  void wake(uint32_t counter);

  void step_loader(uint32_t w);
  bool load_segment(uint32_t w, GridId id);
  int64_t static_stages(uint32_t w, GridId id, const Segment& segment) const;
  std::pair<int64_t, int64_t> share(uint32_t w, GridId id, const Segment& segment) const;
  bool draws_by_loader(GridId id) const;
  void wake_loader(uint32_t w);
  void wake_consumer(uint32_t w);

  void block(uint32_t actor, uint32_t counter);
  uint32_t pick_actor();
  void check_all_ran() const;
  void check_counts() const;
  [[noreturn]] void deadlock() const;

  Prepared& p_;
  Rng& rng_;
  const uint32_t workers_;
  bool loads_;  // some loader claims tasks, so that what loaders do matters
  uint32_t changes_left_;
  std::vector<Worker> consumers_;
  std::vector<Loader> loaders_;
  std::vector<uint32_t> counters_;
  std::vector<uint32_t> counter_clocks_;        // [counter][thread]
  std::vector<std::vector<uint32_t>> waiting_;  // actors that wait, by counter
  std::vector<uint8_t> ran_;                    // how often a task ran, by task
  std::vector<uint32_t> ready_;                 // actors that can go on: consumers, then loaders
  std::vector<uint64_t> priority_;              // priority by actor
  uint32_t depth_ = 0;                          // depth of nested inline tasks
};

}  // namespace mkc::attack
