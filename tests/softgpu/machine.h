// The machine runs grids, CTAs and warps, and chooses which warp goes next. One seed gives one run.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/softgpu/device_memory.h"
#include "tests/softgpu/instruction.h"
#include "tests/softgpu/settings.h"
#include "tests/softgpu/store_buffer.h"

namespace softgpu {

struct Cta;
struct Grid;
struct MBarrierClocks;
class Machine;
class Race;

// A lane certainly sees the stores in memory, and those of each warp of its own CTA, up to these numbers.
struct Seen {
  uint32_t memory = 0;
  std::array<uint32_t, 32> warps{};
  void join(const Seen& other) {
    memory = std::max(memory, other.memory);
    for (size_t n = 0; n < warps.size(); ++n) warps[n] = std::max(warps[n], other.warps[n]);
  }
};

// A split is the lanes of a warp at one instruction.
struct Split {
  uint32_t pc = 0, lanes = 0;
  bool waits = false;  // the lanes wait for the other lanes of the warp
};

// A product is a wgmma under way.
struct Product {
  const Instruction* instruction = nullptr;
  uint32_t group = 0;  // number of its committed group; 0: not committed
  bool done = false;
  void (*multiply)(Warp&, const Instruction&) = nullptr;
};

struct Warp {
  Cta* cta = nullptr;
  uint32_t index = 0, live = 0;
  std::vector<Split> splits;
  size_t now = 0;  // index of the current split
  bool at_barrier = false;
  uint64_t asleep_until = 0;  // turn at which the warp wakes
  std::unique_ptr<uint8_t[]> registers;
  uint8_t* area[2] = {};          // registers, then constants
  std::vector<uint32_t> written;  // lanes that have written it, by register
  std::array<Seen, 32> seen;
  std::array<uint32_t, 32> async_copies{};  // cp.async under way, by lane
  // State of wgmma:
  std::vector<Product> products;
  std::vector<uint8_t> busy;          // products that use it, by register
  std::vector<uint64_t> last_access;  // number of the warp instruction that read or wrote it, by register
  uint64_t fenced_at = 0;             // number of the warp instruction of the last wgmma.fence
  uint32_t groups = 0, products_begun = 0, products_hash = 0;
  // State of setmaxnreg:
  uint32_t max_registers = 0, register_changes = 0;
  uint64_t instructions = 0, lane_instructions = 0;

  Machine& machine() const;
  template <class T>
  T* at(const Operand& o) {
    return reinterpret_cast<T*>(area[o.constant] + o.offset);
  }
  const Operand& operand(const Instruction& i, uint32_t n) const;
};

struct Barrier {
  uint32_t expected = 0, threads = 0;
  std::vector<Warp*> waiting;
};

// The counts and phases are those of the PTX ISA, "mbarrier".
struct MBarrier {
  uint32_t phase = 0, pending = 0, expected = 0;
  int32_t bytes = 0;    // bytes that copies have yet to bring
  bool fenced = false;  // copies see that it is initialised
  Seen gathered, done;
};

struct Cta {
  Grid* grid = nullptr;
  uint32_t index = 0;  // number in its grid
  uint32_t id = 0;     // number among all CTAs that ever began
  std::vector<uint8_t> shared;
  std::vector<uint8_t> holds_mbarrier;  // flags, by 8 bytes of shared memory
  std::map<uint32_t, MBarrier> mbarriers;
  std::array<Barrier, 16> barriers;
  std::vector<std::unique_ptr<Warp>> warps;
  StoreBuffer stores;
  std::unordered_map<uint64_t, uint32_t> newest_seen;  // newest store that the CTA's loads saw, by address
  uint32_t live = 0;                                   // warps that have not returned
  uint32_t copies = 0;                                 // asynchronous copies under way
  uint32_t free_registers = 0;
  bool launched_dependents = false;
};

struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t blocks = 0, threads = 0, shared_bytes = 0;
  uint32_t resident = ~0u;  // greatest number of CTAs at once
  std::vector<uint8_t> parameters;
  bool may_overlap = false;  // overlaps the launch before it (programmatic stream serialization)
};

struct Grid {
  Grid() = default;
  ~Grid();
  Machine* machine = nullptr;
  const Kernel* kernel = nullptr;
  Launch launch;
  Grid* before = nullptr;
  bool begun = false, ended = false;
  uint32_t next_block = 0, live = 0;  // number of the next CTA; CTAs that have not ended
  uint32_t first_view = 0;            // view of its lanes at the beginning
  std::vector<std::unique_ptr<Cta>> ctas;
  std::unique_ptr<Race> race;
};

struct Copy {
  enum class What : uint8_t { kBulk, kAsync, kArrive } what = What::kBulk;
  Cta* cta = nullptr;
  Warp* warp = nullptr;
  uint32_t lane = 0;
  uint32_t to = 0, bytes = 0, mbarrier = 0;  // `to` and `mbarrier` are offsets in shared memory
  uint64_t from = 0;
  uint32_t view = 0;
};

// A fault ends a run.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Statistics {
  uint64_t launches = 0, warp_instructions = 0, lane_instructions = 0;
  uint64_t barriers = 0, bulk_copies = 0, async_copies = 0, products = 0, wgmma = 0, stale_loads = 0;
  double seconds = 0;
};

// Counts of one line of the PTX. A wavefront serves each of 32 banks of 4 bytes once.
struct BankCount {
  uint64_t accesses = 0, wavefronts = 0;
  uint64_t min = 0;  // wavefronts without a conflict
};

class Machine {
 public:
  explicit Machine(const Settings& given)
      : settings(given), random_(given.seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d) {}

  // Runs launches in order to their end. Returns the error, or "" where nothing went wrong. The machine runs
  // nothing more after an error.
  std::string run(const std::vector<Launch>& launches);

  // Returns a random number below n, by an xorshift generator.
  uint32_t draw(uint32_t n) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<uint32_t>((random_ >> 32) * n >> 32);
  }
  uint64_t time_ns() const { return clock_ns_; }
  uint64_t turns() const { return turns_; }
  void sleep(Warp& w, uint32_t max_turns) { w.asleep_until = turns_ + 1 + draw(max_turns); }
  void wake(Warp& w);
  void begin_copy(const Copy& copy);

  [[noreturn]] void fault(const Warp* w, const Instruction* i, const std::string& what);
  // Reports a finding, which is a fault unless the settings say to go on.
  void finding(const Warp* w, const Instruction* i, const std::string& what);

  const Settings settings;
  DeviceMemory memory;
  Statistics statistics;
  std::map<std::string, uint64_t> findings;
  std::map<uint32_t, BankCount> banks;  // counts by line of the PTX, where the settings ask for them
  std::vector<uint8_t> executed;        // flags by line of the PTX, where the settings ask for coverage
  std::string error;

 private:
  void begin_grids();
  void begin_cta(Grid& grid);
  void end_cta(Cta& cta);
  bool step();
  void turn(Warp& w);
  bool pick(Warp& w);
  void execute_branch(Warp& w, const Instruction& i, uint32_t taken);
  void execute_return(Warp& w, uint32_t gone);
  void finish_copies();
  void finish(const Copy& copy);
  void report_deadlock();
  void cover(const Instruction& i);
  void end_run();

  uint64_t random_;
  uint64_t turns_ = 0, clock_ns_ = 0, idle_ = 0;
  uint64_t last_progress_ = 0;  // turn of the last executed instruction
  uint32_t next_cta_ = 0;
  std::vector<std::unique_ptr<Grid>> grids_;
  std::vector<Warp*> awake_;
  std::multimap<uint64_t, Copy> copies_;  // copies by the turn in which they complete
  std::map<size_t, std::vector<std::unique_ptr<uint8_t[]>>> spare_;
};

inline Machine& Warp::machine() const {
  return *cta->grid->machine;
}
inline const Operand& Warp::operand(const Instruction& i, uint32_t n) const {
  return cta->grid->kernel->operands[i.first_operand + n];
}

template <class F>
void each_lane(uint32_t lanes, F f) {
  if (lanes == ~0u)
    for (uint32_t l = 0; l < 32; ++l) f(l);
  else
    for (; lanes; lanes &= lanes - 1) f(static_cast<uint32_t>(__builtin_ctz(lanes)));
}

std::string hex(uint64_t value);

}  // namespace softgpu
