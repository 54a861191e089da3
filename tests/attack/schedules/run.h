// One step of a schedule, run by workers and loaders in a random order.
//
// Every wait, notification, ticket and log entry goes through an array of counters, as on the device, so that
// counters that overlap count together. Vector clocks say what happens before what in this order of the step;
// races are found whether or not the order shows them.
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

// What does not depend on the order: tasks, what they touch, counters.
struct Prepared {
  Prepared(const Schedule& s, const Step& step);

  const Schedule& s;
  const Step& step;
  std::vector<GridTasks> tasks;  // by GridId
  Memory memory;
  std::vector<std::vector<int64_t>> dims;  // by EventId, at the step's values
  std::vector<uint32_t> log;               // by EventId: its log's counter; kNone: it keeps none
  std::vector<GridId> inlined;             // by GridId: what runs behind its tasks
  std::vector<uint32_t> use_begin;         // by task, and behind the last
  std::vector<Use> uses;
  std::vector<std::vector<Use>> looked_up;  // by GridId

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
    uint32_t counter = kNone;  // what is waited for; kNone: tasks that the loader hands over, or stages
    std::string why;
  };
  struct Late {
    uint32_t counter;
    std::vector<uint32_t> clocks;
  };
  // Both roles of a worker.
  struct Worker {
    size_t segment = 0;
    bool begun = false, first = true, late = false;
    int64_t next = 0, end = 0;      // tasks of the segment
    std::optional<int64_t> ticket;  // drawn, not yet known to be ready
    std::vector<uint32_t> clocks;   // by thread; its own says the time
    std::vector<Use> read_once;     // what all tasks of the segment read, once it has been read
    std::vector<Late> held_back;    // notifications until the segment's end
    Blocked blocked;
  };
  struct Loader {
    size_t segment = 0;
    bool begun = false;
    int64_t issued = 0, freed = 0, left = 0;  // stages; of the segment or task
    std::deque<int64_t> handed;               // tasks claimed; -1: no more
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
  bool loads_;  // some loader draws tasks, so that what loaders do matters
  uint32_t changes_left_;
  std::vector<Worker> consumers_;
  std::vector<Loader> loaders_;
  std::vector<uint32_t> counters_;
  std::vector<uint32_t> counter_clocks_;        // [counter][thread]
  std::vector<std::vector<uint32_t>> waiting_;  // by counter: actors
  std::vector<uint8_t> ran_;                    // by task
  std::vector<uint32_t> ready_;                 // actors: consumers, then loaders
  std::vector<uint64_t> priority_;              // by actor
  uint32_t depth_ = 0;                          // of inline tasks
};

}  // namespace mkc::attack
