// An emulated worker has fibers, their waits, and the order in which they run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emulator/copies.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/fiber.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/spoil.h"
#include "runtime/emulator/warp.h"
#include "runtime/emulator/warpgroup.h"

namespace mkrt::emulator {

struct Launch;
struct Worker;

// Wait is what a suspended fiber waits for. The meaning of `object` and `number` depends on the kind.
struct Wait {
  enum class Kind { kNone, kBarrier, kCollective, kCounter, kMbarrier, kSpin, kHeld, kDone };
  Kind kind = Kind::kNone;
  const void* object = nullptr;  // the counter or mbarrier
  uint32_t number = 0;           // barrier id, awaited count or parity
};

// TaskRange is tasks [first, first + count) of a grid.
struct TaskRange {
  uint32_t grid = 0, first = 0, count = 0;
};

// A fiber begins at a cache line, so that a switch to it touches two.
struct alignas(64) Fiber {
  Context context;
  Worker* worker = nullptr;
  uint32_t thread = 0;
  uint32_t agent = 0;   // in the race detector
  uint32_t polls = 0;   // since the fiber was last suspended
  uint32_t spoils = 0;  // calls of mk_spoil
  TaskRange works_for;  // between mk_task_ready and mk_task_end, mk_load_begin and mk_load_end
  Wait wait;
  uint64_t waits_since_ns = 0;  // time of the first wait for `wait`; kept while the fiber polls it
};

// ReadyQueue holds threads that are ready to run, first in, first out.
class ReadyQueue {
 public:
  explicit ReadyQueue(uint32_t capacity);
  bool empty() const { return head_ == tail_; }
  uint32_t size() const { return tail_ - head_; }
  void push(Fiber* fiber) { slots_[tail_++ & mask_] = fiber; }
  Fiber* pop() { return slots_[head_++ & mask_]; }
  // Returns the n-th thread. Requires n < size().
  const Fiber* peek(uint32_t n) const { return slots_[(head_ + n) & mask_]; }
  // Moves the n-th thread to the front.
  void promote(uint32_t n) { std::swap(slots_[head_ & mask_], slots_[(head_ + n) & mask_]); }

 private:
  std::vector<Fiber*> slots_;
  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
};

class Random {  // xorshift64*
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}
  uint32_t below(uint32_t n);

 private:
  uint64_t state_;
};

struct NamedBarrier {
  uint32_t threads = 0;
  uint32_t warps = 0;  // warps of which a thread arrived, one bit each
  std::vector<Fiber*> arrived;
};
constexpr uint32_t kNamedBarriers = 16;

struct Worker {
  Worker(Launch& owner, uint32_t index, Stacks mapped);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Launch& launch;
  uint32_t id;
  std::vector<char> shared_storage;  // has margins that detect accesses next to shared memory
  char* shared;
  Stacks stacks;
  std::vector<Fiber> fibers;
  ReadyQueue ready;
  Context main;  // of the OS thread
  Fiber* current = nullptr;
  uint32_t live;
  uint32_t slice = 0;           // switches left in the worker's turn
  uint64_t steps = 0;           // switches so far
  uint64_t progress = 0;        // events that count as progress of a stalled launch
  std::vector<Fiber*> polling;  // fibers in Wait::kCounter
  Random random;
  uint32_t max_slice;   // random under a seed: some workers are far slower than others
  bool halted = false;  // by a disturbance: no fiber runs
  bool impatient;       // the first mk_mbar_try_wait for a phase does not wait
  std::array<NamedBarrier, kNamedBarriers> barriers;
  std::vector<Warp> warps;
  std::vector<WarpGroup> warpgroups;  // whole warpgroups only
  MbarrierTable mbarriers;
  CopyEngine copies;
  SpoilState spoil;
  EmulatorStats stats;
};

// Returns the fiber that runs on this OS thread.
Fiber& self();
Fiber* running_fiber();  // null: this OS thread runs none

uint64_t now_ns(const Worker& worker);
void wake(Fiber& fiber);
// Suspends the running fiber until wake() is called for it.
void suspend(Wait wait);
// Runs the worker's fibers until none can run or the turn's slice is over. Returns true if any ran.
bool run_slice(Worker& worker);
// Makes every fiber ready that polls a counter or an mbarrier, or spins. `spinning_only` leaves out those
// that poll. Returns how many.
uint32_t wake_pollers(Worker& worker, bool spinning_only);

// Ends the launch with an error that no running fiber has made. The call returns, and may come without a
// running fiber.
void fail_worker(Worker& worker, std::string message);
// Keeps `message`, behind a description of the running fiber, as the launch's error. Some fiber must run.
void record_misuse(const std::string& message);
// Leaves the running fiber for ever. The fiber's frames are not unwound.
[[noreturn]] void abandon();
// Ends the launch with the error that `message()` returns. The message is made here, because objects in the
// caller's frame would never be freed.
template <class Message>
[[noreturn]] void fail(Message message) {
  record_misuse(message());
  abandon();
}
// Returns a fiber's description, such as "worker 1 thread 32, task %down[3]".
std::string describe(const Fiber& fiber);
// Returns ", task %down[3]", or "" where no task runs.
std::string describe_task(const EmulatorNames& names, uint32_t grid, uint32_t task);
// Returns an offset into shared memory such as "shared+0x40", or an address.
std::string describe_address(const Worker& worker, const void* p);
// Returns what every group of the worker's threads waits for, one line each.
std::string describe_waits(const Worker& worker);

constexpr uint32_t kSharedMargin = 64 * 1024;

}  // namespace mkrt::emulator
