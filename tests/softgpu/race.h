// Accesses that happens-before does not order (PTX ISA, "Memory Consistency Model"), found by vector clocks.
//
// Agents are warps, the cp.async of a warp, and what bulk copies bring for one mbarrier. A warp's clock
// advances where its lanes synchronise; what a lane does after that only those know who have it from this
// lane. What orders:
//   bar.sync, bar.warp.sync                     all threads that take part
//   mbarrier arrival, a copy's completion   ->  wait that sees the phase over
//   st.release, atom.acq_rel, a fence before a relaxed update or store
//                                           ->  ld.acquire, atom.acq_rel, a relaxed load before a fence, of
//                                           the same word
// Both sides' scopes must include the other: .cta orders within a CTA only. The async proxy sees what generic
// accesses wrote only behind a proxy fence that is ordered after the write and before the copy.
#pragma once

#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "tests/softgpu/instruction.h"

namespace softgpu {

struct Cta;
struct Grid;
struct Warp;

// Of an agent: all before `clock`, and at `clock` what the lanes did up to `tick`.
struct Known {
  uint32_t clock = 0, lanes = 0, tick = 0;
};
using Clock = std::vector<Known>;

// What somebody knows to have happened, and of that what the async proxy sees in shared and in global memory.
struct History {
  Clock all, shared, global;
};

class Race {
 public:
  explicit Race(Grid& grid);
  // Launches of very many warps are not looked at: clocks would take too much memory.
  static bool can_watch(const Grid& grid);

  void load(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared);
  void store(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared);
  void update(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes);
  void fence(Warp& w, uint32_t lanes, Order order, Scope scope);
  void fence_proxy(Warp& w, uint32_t lanes, bool shared, bool global);
  void join_warp(Warp& w, uint32_t lanes);
  void join_barrier(const std::vector<Warp*>& warps);
  void arrive(Warp& w, const Instruction& i, uint32_t lane, uint32_t mbarrier);
  void wait(Warp& w, const Instruction& i, uint32_t lanes, uint32_t mbarrier);
  void end_phase(Cta& cta, uint32_t mbarrier);
  void issue_bulk(Warp& w, const Instruction& i, uint32_t lane, uint64_t to, uint64_t from, uint32_t bytes,
                  uint32_t mbarrier);
  void end_bulk(Cta& cta, uint32_t mbarrier);
  void issue_async(Warp& w, const Instruction& i, uint32_t lane, uint64_t to, uint64_t from);
  void arrive_async(Warp& w, const Instruction& i, uint32_t lane, uint32_t mbarrier);
  // What a wgmma reads of shared memory: when it begins, and again when it is known to be done.
  void load_async(Warp& w, const Instruction& i, uint64_t at, uint32_t bytes, bool done);

 private:
  struct Access {
    uint32_t clock = 0, lanes = 0, tick = 0, line = 0, cta = 0;
    uint16_t agent = 0xffff;
    uint8_t bytes = 0;  // of the cell, one bit each
    Scope scope = Scope::kCta;
    bool atomic = false, generic = true;
  };
  struct Cell {  // 2 bytes
    Access write;
    std::vector<Access> reads;  // since the write, the last of some agents
    uint8_t next_read = 0;
  };
  struct State {                                      // of a warp
    History common;                                   // what all lanes know
    std::vector<std::pair<uint32_t, History>> extra;  // what some lanes know besides
    std::array<Scope, 32> fence_scope{};
    std::map<uint32_t, History> fenced;  // by lane: what its relaxed stores from now on tell
    std::map<uint32_t, History> read;    // by lane: what its fence from now on acquires
    uint32_t clock = 1, async_tick = 0;
    uint32_t tick = 1;  // grows with each release, so that what follows is told apart
  };
  struct Location {
    History wide;                    // released for the whole GPU
    std::map<uint32_t, History> by;  // released by a CTA, for any scope
  };
  struct Phase {
    History gathered, done;
    uint32_t copies = 1;  // clock of its bulk copies
    uint32_t agent = 0;
  };
  uint32_t number(const Warp& w) const;
  const State& state(const Warp& w) const { return states_[number(w)]; }
  State& state(const Warp& w) { return states_[number(w)]; }
  bool covers(const Warp& w, uint32_t lane, const Access& before, Clock History::* which) const;
  bool ordered(const Warp& w, uint32_t lane, const Access& before, const Access& now, bool writes,
               bool shared) const;
  Cell& cell(const Cta& cta, uint64_t at, bool shared);
  void access(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared,
              bool writes, Access now);
  void report(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, bool shared, const char* what,
              const Access& other);
  Access access_of(Warp& w, const Instruction& i, uint32_t lane);
  History known(Warp& w, uint32_t lane);
  void learn(Warp& w, uint32_t lanes, const History& h);
  void tell(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, bool overwrites);
  void hear(Warp& w, const Instruction& i, uint32_t lane, uint64_t at);
  History readable(Warp& w, uint64_t at, Scope scope);
  Phase& phase(const Cta& cta, uint32_t mbarrier);

  Grid& grid_;
  uint32_t warps_per_cta_, warps_, agents_;
  std::vector<State> states_;
  std::map<std::pair<uint32_t, uint32_t>, Phase> phases_;  // by CTA and offset
  std::vector<uint32_t> bulk_agents_;                      // by CTA: how many it has
  std::unordered_map<uint64_t, Location> locations_;
  std::vector<std::vector<Cell>> shared_;                   // by CTA
  std::unordered_map<uint64_t, std::vector<Cell>> global_;  // by 4096 bytes
};

}  // namespace softgpu
