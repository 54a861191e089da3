// Agents have knowledge about each other, and events pass it on.
#include "runtime/emulator/race.h"

#include "runtime/emulator/access_rules.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {
namespace {

constexpr uint32_t kMbarrierAgents = 32;  // per worker; further mbarriers share them

}  // namespace

Race::Race(Launch& launch, std::vector<RaceReport>* reports)
    : launch_(launch),
      reports_(reports),
      threads_(launch.options.threads_per_worker),
      agents_per_worker_(2 * threads_ + kMbarrierAgents),  // threads, and the 16-byte copies of each
      agents_(agents_per_worker_ * launch.options.workers),
      warp_clocks_(agents_ / kLanes, 1),
      known_(agents_),
      fenced_(agents_),
      tasks_(agents_ / kLanes) {}

void Race::synchronise(const std::vector<Fiber*>& fibers) {
  std::vector<uint32_t> agents;
  for (const Fiber* fiber : fibers) agents.push_back(fiber->agent);
  synchronise_agents(agents);
}

void Race::synchronise_warp(uint32_t agent) {
  std::vector<uint32_t> agents(kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) agents[lane] = agent / kLanes * kLanes + lane;
  synchronise_agents(agents);
}

void Race::synchronise_agents(const std::vector<uint32_t>& agents) {
  SyncClock joined = known_[agents[0]];
  for (size_t i = 1; i < agents.size(); ++i) {
    const SyncClock& before = known_[agents[i - 1]];
    const SyncClock& now = known_[agents[i]];
    if (now.all != before.all) joined.all = join(joined.all, now.all);
    if (now.proxied != before.proxied) joined.proxied = join(joined.proxied, now.proxied);
  }
  auto all = joined.all != nullptr ? std::make_shared<Clock>(*joined.all) : std::make_shared<Clock>(agents_);
  for (uint32_t agent : agents) all->learn({agent, clock_of(agent)});
  joined.all = std::move(all);
  for (uint32_t agent : agents) {
    known_[agent] = joined;
    ++clock_of(agent);
  }
}

void Race::release(uint32_t agent, SyncClock& object) {
  object.proxied = joins_.join(object.proxied, known_[agent].proxied);
  release_device(agent, object);
}

void Race::release_device(uint32_t agent, SyncClock& object) {
  const ClockRef passed = joins_.join(object.all, known_[agent].all);
  object.all = with(passed, {agent, clock_of(agent)}, agents_);
  ++clock_of(agent);
}

void Race::fence_release(uint32_t agent) {
  fenced_[agent] = with(known_[agent].all, {agent, clock_of(agent)}, agents_);
  ++clock_of(agent);
}

void Race::release_fenced(uint32_t agent, SyncClock& object) {
  object.all = joins_.join(object.all, fenced_[agent]);
}

void Race::acquire(uint32_t agent, const SyncClock& object) {
  SyncClock& known = known_[agent];
  known.all = joins_.join(known.all, object.all);
  known.proxied = joins_.join(known.proxied, object.proxied);
}

void Race::fence_proxy(uint32_t agent) {
  SyncClock& known = known_[agent];
  known.proxied = joins_.join(known.proxied, with(known.all, {agent, clock_of(agent)}, agents_));
  ++clock_of(agent);
}

uint32_t Race::async_agent(uint32_t issuer) const {
  return issuer + threads_;
}

AgentEpoch Race::begin_copy(uint32_t agent, uint32_t issuer) {
  const AgentEpoch epoch{agent, ++clock_of(agent)};
  const RaceParty who = party({issuer, clock_of(issuer)}, kSiteCopy);
  auto& changes = tasks_[agent / kLanes];
  if (changes.empty() || changes.back().grid != who.grid || changes.back().task != who.task)
    changes.push_back({epoch.clock, who.grid, who.task});
  return epoch;
}

AgentEpoch Race::begin_bulk(uint32_t issuer, uint32_t mbarrier, const void* dst, const void* src,
                            uint32_t bytes) {
  const uint32_t first = issuer / agents_per_worker_ * agents_per_worker_ + 2 * threads_;
  const AgentEpoch epoch = begin_copy(first + mbarrier % kMbarrierAgents, issuer);
  touch({epoch, issuer, kSiteCopy, Access::kBulkRead}, src, bytes);
  touch({epoch, issuer, kSiteCopy, Access::kBulkWrite}, dst, bytes);
  return epoch;
}

AgentEpoch Race::begin_async(uint32_t issuer, const void* dst, const void* src, uint32_t bytes) {
  const AgentEpoch epoch = begin_copy(async_agent(issuer), issuer);
  touch({epoch, issuer, kSiteCopy, Access::kRead}, src, bytes);
  touch({epoch, issuer, kSiteCopy, Access::kWrite}, dst, bytes);
  return epoch;
}

AgentEpoch Race::async_epoch(uint32_t issuer) const {
  const uint32_t agent = async_agent(issuer);
  return {agent, warp_clocks_[agent / kLanes]};
}

void Race::complete(SyncClock& object, AgentEpoch epoch) {
  object.all = with(object.all, epoch, agents_);
}

void Race::note_task(uint32_t agent, uint32_t grid, uint32_t task) {
  tasks_[agent / kLanes].push_back({++clock_of(agent), grid, task});
}

void Race::access(const Fiber& fiber, const void* p, uint32_t bytes, uint32_t site, Access kind) {
  const Worker& worker = *fiber.worker;
  if (worker.stacks.contains(p)) return;
  const Actor actor{{fiber.agent, clock_of(fiber.agent)}, fiber.agent, site, kind};
  const auto offset = static_cast<const char*>(p) - worker.shared;
  const auto shared_bytes = static_cast<ptrdiff_t>(launch_.options.shared_bytes);
  const bool near = offset + bytes > -static_cast<ptrdiff_t>(kSharedMargin) &&
                    offset < shared_bytes + static_cast<ptrdiff_t>(kSharedMargin);
  if (near && (offset < 0 || offset + static_cast<ptrdiff_t>(bytes) > shared_bytes))
    return report(RaceKind::kOutsideShared, actor, actor.epoch, site, reinterpret_cast<uintptr_t>(p));
  touch(actor, p, bytes);
}

}  // namespace mkrt::emulator

using namespace mkrt::emulator;

extern "C" {

void mk_race_read(const void* p, uint32_t bytes, uint32_t site) noexcept {
  const Fiber& fiber = self();
  check_access(fiber, p, bytes, site, false);
  if (Race* race = fiber.worker->launch.race.get()) race->access(fiber, p, bytes, site, Access::kRead);
}

void mk_race_write(const void* p, uint32_t bytes, uint32_t site) noexcept {
  const Fiber& fiber = self();
  check_access(fiber, p, bytes, site, true);
  if (Race* race = fiber.worker->launch.race.get()) race->access(fiber, p, bytes, site, Access::kWrite);
}
}
