// Tickets let free workers claim the tasks of a grid one by one. A ticket is one addition to a counter. A
// ticket beyond the last task ends the worker's share of the grid.
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {
namespace {

constexpr u32 kNoTask = 0xffffffffu;
// kClaimer is the consumer thread that claims. Another warp notifies, so the next task is claimed meanwhile.
constexpr u32 kClaimer = kConsumerThreads - kWarpLanes;

// tell_all() gives all consumer threads what the claiming one has claimed.
MK_INLINE u32 tell_all(Worker& w, u32 task) {
  AS3 u32* word = w.told_task(w.told++ % 2);  // some threads may still read the other word
  if (w.thread == kClaimer) *word = task;
  consumer_barrier();
  return *word;
}

MK_INLINE u32 take_ticket(const Worker& w, u32 tickets) {
  return mk_add_relaxed(w.counters + tickets, 1);
}

}  // namespace

// mkd_next_queued() claims the next of the grid's tasks, in their order. Consumer threads call it.
MK_BODY u32 mkd_next_queued(Worker* w, u32 tickets) {
  return tell_all(*w, w->thread == kClaimer ? take_ticket(*w, tickets) : 0);
}

// mkd_next_ready() claims the next task by the log of the awaited event, once its cell is complete. A cell
// has `per_cell` of the tasks. Consumer threads call it. The claiming thread's acquire and the barrier order
// what the notifiers wrote before what any thread reads next.
MK_BODY u32 mkd_next_ready(Worker* w, u32 tickets, u32 tasks, u32 grid, u32 log, u32 per_cell) {
  u32 task = kNoTask;
  if (w->thread == kClaimer) {
    const u32 ticket = take_ticket(*w, tickets);
    if (ticket < tasks) {
      w->grid = grid;
      w->task = ticket;
      poll(*w, log + 1 + ticket / per_cell, 1);
      const u32 entry = mk_load_relaxed(w->counters + log + 1 + ticket / per_cell);
      if (entry != 0) task = (entry - 1) * per_cell + ticket % per_cell;  // an entry is 0 only after a fault
    }
  }
  return tell_all(*w, task);
}

// mkd_next_handed() is the next task that the loader has claimed. Consumer threads call it. No task follows a
// fault, but the loader may have brought operands of one. Stages then no longer hold what consumers take from
// them next.
MK_BODY u32 mkd_next_handed(Worker* w) {
  u32 task = kNoTask;
  if (w->thread == kClaimer) {
    const u32 entry = w->handed % kHandedTasks;
    wait_phase(*w, w->handed_full(entry), w->handed / kHandedTasks % 2, kClaimedCell, w->handed);
    if (faulted(*w))
      w->give_up();
    else
      task = *w->handed_task(entry);
    mk_mbar_arrive(w->handed_empty(entry));
  }
  ++w->handed;
  return tell_all(*w, task);
}

// mkd_hand_back() tells the loader which task the consumers have claimed. Consumer threads call it.
MK_BODY void mkd_hand_back(Worker* w, u32 task) {
  const u32 entry = w->handed % kHandedTasks, round = w->handed / kHandedTasks;
  if (w->thread == kClaimer) {
    wait_phase(*w, w->handed_empty(entry), (round + 1) % 2, kClaimedCell, w->handed);
    *w->handed_task(entry) = task;
    mk_mbar_arrive(w->handed_full(entry));
  }
  ++w->handed;
}

// mkd_next_handed_back() is, for the loader, the next task that the consumers have claimed.
MK_BODY u32 mkd_next_handed_back(Worker* w) {
  const u32 entry = w->handed % kHandedTasks, round = w->handed / kHandedTasks;
  ++w->handed;
  if (!wait_free(*w, w->handed_full(entry), round % 2)) return kNoTask;
  const u32 task = *w->handed_task(entry);
  mk_warp_sync();
  if (w->lane() == 0) mk_mbar_arrive(w->handed_empty(entry));
  return task;
}

// mkd_hand_over() claims a task of the grid for the loader, which brings its operands, and hands it to the
// consumers. The loader does not claim ahead of need: a worker that claims early claims too much.
MK_BODY u32 mkd_hand_over(Worker* w, u32 tickets) {
  const u32 entry = w->handed % kHandedTasks, round = w->handed / kHandedTasks;
  ++w->handed;
  if (!wait_free(*w, w->handed_empty(entry), (round + 1) % 2)) return kNoTask;
  if (w->lane() == 0) {
    *w->handed_task(entry) = take_ticket(*w, tickets);
    mk_mbar_arrive(w->handed_full(entry));
  }
  mk_warp_sync();
  return *w->handed_task(entry);
}

}  // namespace mk
