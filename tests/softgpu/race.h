// Vector clocks find accesses that happens-before does not order (PTX ISA, "Memory Consistency Model").
//
// Agents are warps, the cp.async of a warp, and the bulk copies of one mbarrier. A warp's clock advances
// where its lanes synchronise. What a lane does after that is known only to those who have it from this lane.
// These pairs order accesses:
//   bar.sync, bar.warp.sync                     all threads that take part
//   mbarrier arrival, a copy's completion   ->  wait that sees the phase over
//   st.release, atom.acq_rel, a fence before a relaxed update or store
//                                           ->  ld.acquire, atom.acq_rel, a relaxed load before a fence, of
//                                           the same word
// Both sides' scopes must include the other: .cta orders within a CTA only. The async proxy sees generic
// writes only behind a proxy fence. The fence must be ordered after the write and before the copy.
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

// Everything that an agent did before `clock` is known. Work of `lanes` at `clock` is known up to `tick`.
struct Known {
  uint32_t clock = 0, lanes = 0, tick = 0;
};
using Clock = std::vector<Known>;

// A history is what somebody knows to have happened. `shared` and `global` are what the async proxy sees of
// it in these spaces.
struct History {
  Clock all, shared, global;
};

class Race {
 public:
  explicit Race(Grid& grid);
  // Returns whether races of the grid are searched for. Clocks of very many warps take too much memory.
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
  // Notes what a wgmma reads of shared memory: when it begins, and again when it is known to be done.
  void load_async(Warp& w, const Instruction& i, uint64_t at, uint32_t bytes, bool done);

 private:
  struct Access {
    uint32_t clock = 0, lanes = 0, tick = 0, line = 0, cta = 0;
    uint16_t agent = 0xffff;
    uint8_t bytes = 0;  // bytes of the cell, one bit each
    Scope scope = Scope::kCta;
    bool atomic = false, generic = true;
  };
  struct Cell {  // a cell is 2 bytes
    Access write;
    Access beside;              // an earlier write, of the other byte
    std::vector<Access> reads;  // reads since the write of their bytes, the last one of each of some agents
    uint8_t next_read = 0;
  };
  struct State {                                      // state of a warp
    History common;                                   // what all lanes know
    std::vector<std::pair<uint32_t, History>> extra;  // what some lanes know in addition
    std::array<Scope, 32> fence_scope{};
    std::map<uint32_t, History> fenced;  // what a lane's later relaxed stores publish, by lane
    std::map<uint32_t, History> read;    // what a lane's next fence acquires, by lane
    uint32_t clock = 1, async_tick = 0;
    uint32_t tick = 1;  // grows with each release, to tell later accesses apart
  };
  struct Location {
    History wide;                    // what was released for the whole GPU
    std::map<uint32_t, History> by;  // what a CTA released for any scope, by CTA
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
  void remember_read(Cell& cell, const Access& now);
  void remember_write(Cell& cell, const Access& now);
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
  std::map<std::pair<uint32_t, uint32_t>, Phase> phases_;  // phases by CTA and offset
  std::vector<uint32_t> bulk_agents_;                      // number of bulk agents, by CTA
  std::unordered_map<uint64_t, Location> locations_;
  std::vector<std::vector<Cell>> shared_;                   // cells of shared memory, by CTA
  std::unordered_map<uint64_t, std::vector<Cell>> global_;  // cells of global memory, by 4096 bytes
};

}  // namespace softgpu
