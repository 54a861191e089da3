// Runs a megakernel on the CPU: every GPU thread is a fiber, and the primitives of codegen/device/mk.h have
// their real semantics, late copies and all. What is modelled and what is not: docs/emulator.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/base/status.h"
#include "runtime/emulator/counts.h"
#include "runtime/emulator/disturbance.h"

namespace mkrt {

namespace emulator {
class StackPool;
}

// The compiled mk_kernel, a mk_grid_<kind>, and mk_pack.
using KernelEntry = void (*)(const MkSession*, const MkStep*);
using GridEntry = void (*)(const MkSession*, const MkStep*, uint32_t grid);
using PackEntry = void (*)(const MkPack*, uint32_t workers, uint32_t threads);

// What tasks declare to read and write. For launches on one OS thread.
class AccessRules {
 public:
  virtual ~AccessRules() = default;
  // Before each step: with its sizes and addresses.
  virtual void begin_step(const MkSession& session, const MkStep& step) = 0;
  // What is wrong where tasks [task, task + count) of a grid, which its body takes together, touch these
  // bytes; "": nothing. "reads %x[3, 17], of which it declares only %x[0:+2, 0:+64]"
  virtual std::string check(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, uint32_t bytes,
                            bool write) = 0;
};

// Where a tensor lies in the workspace.
struct WorkspaceTensor {
  uint64_t offset = 0, bytes = 0;
};

// The kernels of a step: mk_kernel, or those of its grids by kind, null where a kind has none. And the one
// that packs weights.
struct StepKernels {
  KernelEntry step = nullptr;
  std::vector<GridEntry> grids;
  PackEntry pack = nullptr;
  // What tasks write of the workspace: by grid, numbers of tensors.
  std::vector<WorkspaceTensor> tensors{};
  std::vector<std::vector<uint32_t>> written{};
  std::shared_ptr<AccessRules> rules{};  // of kernels that report their accesses
  // By grid: the tensor whose first word its tasks are looked up by, or kNotLookedUp.
  std::vector<uint32_t> looked_up{};
  // What the counters must hold at the end of a step; empty: they are not checked.
  CountStep counts{};
};
constexpr uint32_t kNotLookedUp = 0xffffffffu;

// What one launch runs: called once for every GPU thread.
using KernelCall = std::function<void(const MkSession*, const MkStep*)>;

struct EmulatorOptions {
  uint32_t workers = 1;
  uint32_t threads_per_worker = kWorkerThreads;  // a multiple of 32
  uint32_t shared_bytes = 0;                     // of each worker, spoilt at the launch
  uint64_t seed = 0;        // 0: fixed order; else the order of threads, workers and copies follows the seed
  uint32_t os_threads = 1;  // worker w runs on OS thread w mod os_threads
  bool race = false;        // find unordered accesses; needs os_threads == 1
  uint32_t max_reports = 16;  // of distinct races, after which the launch ends
  // Called when all tasks of a step have ended, maybe twice at the end of a launch without faults; by threads
  // of the launch before each step but the first; by all threads of a task between its waits and its work.
  std::function<void()> after_step{};
  std::function<void()> before_step{};
  std::function<void(uint32_t grid)> before_task{};
  AccessRules* rules = nullptr;  // in race mode: an access of a task that breaks them ends the launch
  // By one thread of each worker that has run tasks of a grid together.
  std::function<void(uint32_t grid, uint32_t first, uint32_t count)> after_tasks{};
  // Of the processor, that a thread of code made by a JIT may run without a switch; 0: any.
  uint32_t patience_ms = 30'000;
  emulator::StackPool* stacks = nullptr;  // where fibers' stacks are taken from and left; null: mapped anew
  Disturbance disturbance{};              // with more than 1 OS thread: none, or one that drops something
};

struct EmulatorStats {
  uint64_t switches = 0;     // of fibers
  uint64_t barriers = 0;     // completed named barriers
  uint64_t collectives = 0;  // completed warp collectives, products included
  uint64_t products = 0;     // mma
  uint64_t copies = 0;       // bulk and 16-byte asynchronous copies
  uint64_t copied_bytes = 0;
  uint64_t notifications = 0;  // mk_red_relaxed and mk_add_acq_rel
  uint64_t tasks = 0;          // distinct consecutive mk_task_begin of a warp
  uint64_t time_jumps = 0;     // times nothing could run and virtual time passed a deadline
};

// Turns numbers into names for messages. An empty function, or an empty string returned, leaves the number.
struct EmulatorNames {
  std::function<std::string(uint32_t grid)> grid;
  std::function<std::string(uint64_t address)> tensor;  // tensor and element offset, e.g. "%act[3, 17]"
  std::function<std::string(uint32_t site)> site;       // "file:line" of an instrumented access
};

enum class RaceKind {
  kReadAfterWrite,
  kWriteAfterRead,
  kWriteAfterWrite,
  kProxy,         // ordered, but no mk_fence_proxy_async before a bulk copy touches generic writes
  kOutsideShared  // an access next to a worker's shared memory
};

// One side of a race: a thread, or a copy that it issued.
struct RaceParty {
  uint32_t worker = 0;
  uint32_t thread = 0;  // thread in the worker; kCopyThread for a bulk copy
  uint32_t grid = kNoTask;
  uint32_t task = kNoTask;
  uint32_t site = 0;

  static constexpr uint32_t kNoTask = 0xffffffffu;
  static constexpr uint32_t kCopyThread = 0xfffffffeu;
};

struct RaceReport {
  RaceKind kind;
  uint64_t address;   // first byte of the access, as this process sees it
  RaceParty now;      // the access that found the race
  RaceParty earlier;  // equal to `now` for kOutsideShared
  std::string message;
};

// Sites the emulator itself gives to accesses; instrumented ones are below.
constexpr uint32_t kSiteCopy = 0xfffffff0u;     // an asynchronous copy
constexpr uint32_t kSiteWgmma = 0xfffffff3u;    // a warpgroup's product
constexpr uint32_t kSiteAtomic = 0xfffffff1u;   // a counter primitive
constexpr uint32_t kSiteBarrier = 0xfffffff2u;  // an mbarrier primitive

// Runs one launch to its end. In race mode appends at most max_reports distinct races (by kind and pair of
// sites) to `races`; `names` and `races` may be null.
// Errors: bad options; a misused primitive, naming worker, thread and task; a launch in which nothing can
// run any more although time passed every deadline, or that passes deadlines without end, listing what each
// worker's threads wait for; a thread that runs on without waiting for anything.
Result<EmulatorStats> emulate(const KernelCall& kernel, const MkSession* session, const MkStep* step,
                              const EmulatorOptions& options, const EmulatorNames* names,
                              std::vector<RaceReport>* races);

// Name and address of every primitive and race hook, for a JIT.
std::vector<std::pair<const char*, void*>> emulator_symbols();

}  // namespace mkrt
