// The race detector tracks happens-before by vector clocks, after FastTrack (Flanagan and Freund, PLDI 2009).
//
// Agents are the threads, the copy engine per mbarrier, and the 16-byte copies per thread. docs/emulator.md
// lists the edges.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/clock.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/shadow.h"

namespace mkrt::emulator {

struct Fiber;
struct Launch;

enum class Access { kRead, kWrite, kAtomicRead, kAtomicWrite, kBulkRead, kBulkWrite };

class Race {
 public:
  Race(Launch& launch, std::vector<RaceReport>* reports);

  uint32_t thread_agent(uint32_t worker, uint32_t thread) const {
    return worker * agents_per_worker_ + thread;
  }

  // Gives all `fibers` the knowledge of each of them.
  void synchronise(const std::vector<Fiber*>& fibers);
  void synchronise_warp(uint32_t agent);
  // release() gives the agent's knowledge to an object of its worker, including the order made by proxy
  // fences. release_device() leaves that order out.
  void release(uint32_t agent, SyncClock& object);
  void release_device(uint32_t agent, SyncClock& object);
  // fence_release() stores the agent's knowledge. release_fenced() passes on the stored knowledge, which is
  // none before the first fence.
  void fence_release(uint32_t agent);
  void release_fenced(uint32_t agent, SyncClock& object);
  void acquire(uint32_t agent, const SyncClock& object);
  // Orders generic accesses of shared memory before asynchronous ones.
  void fence_proxy(uint32_t agent);
  // Returns the knowledge that releases to the counter at `p` passed on.
  SyncClock& counter(const uint32_t* p) { return counters_[p]; }

  // Checks an access by a thread, and remembers the access.
  void access(const Fiber& fiber, const void* p, uint32_t bytes, uint32_t site, Access kind);

  // begin_bulk() and begin_async() begin a copy. The copy's accesses last until a thread that waits for the
  // copy knows the returned epoch.
  AgentEpoch begin_bulk(uint32_t issuer, uint32_t mbarrier, const void* dst, const void* src, uint32_t bytes);
  AgentEpoch begin_async(uint32_t issuer, const void* dst, const void* src, uint32_t bytes);
  // Returns the newest 16-byte copy of the issuer.
  AgentEpoch async_epoch(uint32_t issuer) const;
  void complete(SyncClock& object, AgentEpoch epoch);

  void note_task(uint32_t agent, uint32_t grid, uint32_t task);

 private:
  // Actor is the side of an access that is being checked. The access is by `agent` at its clock, with the
  // knowledge of the thread that makes or issues it.
  struct Actor {
    AgentEpoch epoch;
    uint32_t knower;  // thread agent
    uint32_t site;
    Access kind;
  };
  struct TaskChange {
    uint32_t clock, grid, task;
  };

  uint32_t& clock_of(uint32_t agent) { return warp_clocks_[agent / 32]; }
  uint32_t async_agent(uint32_t issuer) const;
  bool ordered(const Actor& actor, AgentEpoch earlier) const;
  bool all_ordered(const Actor& actor, const Read& read) const;
  void synchronise_agents(const std::vector<uint32_t>& agents);
  void touch(const Actor& actor, const void* p, uint32_t bytes);
  void check_write(const Actor& actor, const Write& write, uint32_t bytes, uintptr_t address);
  void check_reads(const Actor& actor, const Cell& cell, uint32_t bytes, uintptr_t address);
  void remember_read(const Actor& actor, Cell& cell, uint32_t bytes);
  bool is_proxied(const Actor& actor, AgentEpoch write, uintptr_t address) const;
  AgentEpoch begin_copy(uint32_t agent, uint32_t issuer);
  RaceParty party(AgentEpoch epoch, uint32_t site) const;
  void report(RaceKind kind, const Actor& actor, AgentEpoch earlier, uint32_t earlier_site,
              uintptr_t address);
  std::string describe_party(const RaceParty& party) const;

  Launch& launch_;
  std::vector<RaceReport>* reports_;
  uint32_t threads_;
  uint32_t agents_per_worker_;
  uint32_t agents_;
  std::vector<uint32_t> warp_clocks_;
  std::vector<SyncClock> known_;  // by agent, without the agent's own epoch
  std::vector<ClockRef> fenced_;  // by agent, with the agent's own epoch
  JoinCache joins_;
  std::unordered_map<const uint32_t*, SyncClock> counters_;
  Shadow shadow_;
  std::vector<std::vector<TaskChange>> tasks_;  // by warp
  std::set<std::tuple<RaceKind, uint32_t, uint32_t>> reported_;
};

}  // namespace mkrt::emulator
