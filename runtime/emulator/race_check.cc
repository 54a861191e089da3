// Each access is compared with the record of its cells and then recorded itself.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/emulator/launch.h"

namespace mkrt::emulator {
namespace {

constexpr uint32_t kAllBytes = (1u << kCellBytes) - 1;

bool is_read(Access kind) {
  return kind == Access::kRead || kind == Access::kAtomicRead || kind == Access::kBulkRead;
}

bool is_bulk(Access kind) {
  return kind == Access::kBulkRead || kind == Access::kBulkWrite;
}

// Tells whether two accesses touch a common byte and are not both atomic.
bool conflict(uint32_t a, uint32_t b) {
  return (a & b & kAllBytes) != 0 && ((a | b) & kPlain) != 0;
}

AgentEpoch first_of(const Read& read) {
  return {read.warp * kLanes + static_cast<uint32_t>(std::countr_zero(read.lanes)), read.clock};
}

Older& older_of(Cell& cell) {
  if (cell.older == nullptr) cell.older = std::make_unique<Older>();
  return *cell.older;
}

// Takes bytes from an earlier access. An access without bytes is none.
template <class Earlier>
void cut(Earlier& earlier, uint32_t bytes) {
  earlier.bytes &= ~(bytes & kAllBytes);
  if ((earlier.bytes & kAllBytes) == 0) earlier = {};
}
template <class Earlier>
void cut(std::vector<Earlier>& all, uint32_t bytes) {
  for (Earlier& earlier : all) cut(earlier, bytes);
  std::erase_if(all, [](const Earlier& earlier) { return earlier.bytes == 0; });
}

// Forgets accesses of bytes that are written anew. Accesses of the cell's other bytes stay, and leave
// Cell::write free. The function is rare, and apart from touch() to keep that fast.
[[gnu::noinline]] void keep_other_bytes(Cell& cell, uint32_t bytes) {
  cut(cell.read, bytes);
  cut(cell.write, bytes);
  if (cell.older != nullptr) {
    cut(cell.older->reads, bytes);
    cut(cell.older->writes, bytes);
  }
  if (cell.write.bytes != 0) older_of(cell).writes.push_back(cell.write);
}

const char* kind_name(RaceKind kind) {
  switch (kind) {
    case RaceKind::kReadAfterWrite:
      return "unordered read after write";
    case RaceKind::kWriteAfterRead:
      return "unordered write after read";
    case RaceKind::kWriteAfterWrite:
      return "unordered write after write";
    case RaceKind::kProxy:
      return "no proxy fence between a write and an asynchronous access";
    case RaceKind::kOutsideShared:
      return "access outside shared memory";
  }
  return "";
}

}  // namespace

bool Race::ordered(const Actor& actor, AgentEpoch earlier) const {
  return earlier.agent == actor.knower || earlier.agent == actor.epoch.agent ||
         knows(known_[actor.knower].all, earlier);
}

bool Race::all_ordered(const Actor& actor, const Read& read) const {
  const auto own = [&](uint32_t agent) { return agent / kLanes == read.warp ? 1u << agent % kLanes : 0; };
  const uint32_t others = read.lanes & ~own(actor.knower) & ~own(actor.epoch.agent);
  if (others == 0) return true;
  const ClockRef& known = known_[actor.knower].all;
  return known != nullptr && known->knows_all(read.warp * kLanes, others, read.clock);
}

void Race::touch(const Actor& actor, const void* p, uint32_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p), end = begin + bytes;
  const bool atomic = actor.kind == Access::kAtomicRead || actor.kind == Access::kAtomicWrite;
  for (uintptr_t at = begin / kCellBytes * kCellBytes; at < end; at += kCellBytes) {
    uint32_t mask = atomic ? kAllBytes : kAllBytes | kPlain;
    if (at < begin) mask &= ~((1u << (begin - at)) - 1);
    if (end - at < kCellBytes) mask &= ((1u << (end - at)) - 1) | kPlain;
    Cell& cell = shadow_.cell(at);
    // The common case, an ordered write, needs no call.
    if (conflict(cell.write.bytes, mask) && (is_bulk(actor.kind) || !ordered(actor, cell.write.epoch)))
      check_write(actor, cell.write, mask, at);
    if (cell.older != nullptr)
      for (const Write& write : cell.older->writes) check_write(actor, write, mask, at);
    if (is_read(actor.kind)) {
      remember_read(actor, cell, mask);
    } else {
      check_reads(actor, cell, mask, at);
      if ((mask & kAllBytes) == kAllBytes) {
        cell.read = {};
        if (cell.older != nullptr) cell.older->reads.clear(), cell.older->writes.clear();
      } else if (cell.older != nullptr || ((cell.write.bytes | cell.read.bytes) & ~mask & kAllBytes) != 0) {
        keep_other_bytes(cell, mask);
      } else {
        cell.read = {};
      }
      cell.write = {actor.epoch, actor.site, mask};
    }
  }
}

// Tells whether the async proxy sees a generic write that the actor knows of. mk_fence_proxy_async() is
// fence.proxy.async.shared::cta: no fence shows it a write to global memory.
bool Race::is_proxied(const Actor& actor, AgentEpoch write, uintptr_t address) const {
  const Worker& worker = *launch_.workers[actor.knower / agents_per_worker_];
  const bool shared = address - reinterpret_cast<uintptr_t>(worker.shared) < launch_.options.shared_bytes;
  return shared && knows(known_[actor.knower].proxied, write);
}

[[gnu::noinline]] void Race::check_write(const Actor& actor, const Write& write, uint32_t bytes,
                                         uintptr_t address) {
  if (!conflict(write.bytes, bytes)) return;
  if (!ordered(actor, write.epoch)) {
    const RaceKind kind = is_read(actor.kind) ? RaceKind::kReadAfterWrite : RaceKind::kWriteAfterWrite;
    return report(kind, actor, write.epoch, write.site, address);
  }
  // Threads write by the generic proxy, and so do their 16-byte copies.
  const bool generic = write.epoch.agent % agents_per_worker_ < 2 * threads_;
  if (is_bulk(actor.kind) && generic && !is_proxied(actor, write.epoch, address))
    report(RaceKind::kProxy, actor, write.epoch, write.site, address);
}

void Race::check_reads(const Actor& actor, const Cell& cell, uint32_t bytes, uintptr_t address) {
  const auto check = [&](const Read& read) {
    if (read.lanes == 0 || !conflict(read.bytes, bytes) || all_ordered(actor, read)) return;
    Read unordered = read;
    while (ordered(actor, first_of(unordered))) unordered.lanes &= unordered.lanes - 1;
    report(RaceKind::kWriteAfterRead, actor, first_of(unordered), read.site, address);
  };
  check(cell.read);
  if (cell.older != nullptr) std::ranges::for_each(cell.older->reads, check);
}

void Race::remember_read(const Actor& actor, Cell& cell, uint32_t bytes) {
  const uint32_t warp = actor.epoch.agent / kLanes, lane = 1u << actor.epoch.agent % kLanes;
  const auto joins = [&](Read& read) {
    const bool same = read.warp == warp && read.clock == actor.epoch.clock && read.bytes == bytes;
    if (same) read.lanes |= lane;
    return same;
  };
  if (joins(cell.read)) return;
  if (cell.older != nullptr && std::ranges::any_of(cell.older->reads, joins)) return;
  // The new read covers a read that is ordered before it: whatever is ordered after the new read is ordered
  // after both.
  const auto covered = [&](const Read& read) {
    return read.lanes == 0 || ((read.bytes & ~bytes) == 0 && all_ordered(actor, read));
  };
  if (cell.older != nullptr) std::erase_if(cell.older->reads, covered);
  if (!covered(cell.read)) older_of(cell).reads.push_back(cell.read);
  cell.read = {warp, actor.epoch.clock, lane, actor.site, bytes};
}

RaceParty Race::party(AgentEpoch epoch, uint32_t site) const {
  RaceParty party;
  party.worker = epoch.agent / agents_per_worker_;
  const uint32_t index = epoch.agent % agents_per_worker_;
  party.thread = index < threads_ ? index : RaceParty::kCopyThread;
  party.site = site;
  const auto& changes = tasks_[epoch.agent / kLanes];
  const auto after =
      std::upper_bound(changes.begin(), changes.end(), epoch.clock,
                       [](uint32_t clock, const TaskChange& change) { return clock < change.clock; });
  if (after == changes.begin()) return party;
  party.grid = std::prev(after)->grid;
  party.task = std::prev(after)->task;
  return party;
}

std::string Race::describe_party(const RaceParty& party) const {
  std::string site;
  if (party.site == kSiteCopy)
    site = "asynchronous copy";
  else if (party.site == kSiteWgmma)
    site = "warpgroup product";
  else if (party.site == kSiteAtomic)
    site = "counter primitive";
  else if (party.site == kSiteBarrier)
    site = "mbarrier primitive";
  else if (launch_.names.site)
    site = launch_.names.site(party.site);
  if (site.empty()) site = fmt::format("site {}", party.site);
  const std::string thread =
      party.thread == RaceParty::kCopyThread ? std::string() : fmt::format(" thread {}", party.thread);
  return fmt::format("worker {}{}{}, {}", party.worker, thread,
                     describe_task(launch_.names, party.grid, party.task), site);
}

void Race::report(RaceKind kind, const Actor& actor, AgentEpoch earlier, uint32_t earlier_site,
                  uintptr_t address) {
  if (reports_ == nullptr || reported_.size() >= launch_.options.max_reports) return;
  const auto* fault = reinterpret_cast<const MkFault*>(launch_.session->fault);
  if (fault != nullptr && fault->state != 0) return;  // waits fall through after a fault
  if (!reported_.emplace(kind, actor.site, earlier_site).second) return;
  RaceReport found;
  found.kind = kind;
  found.address = address;
  found.now = party(actor.epoch, actor.site);
  found.earlier = party(earlier, earlier_site);
  const Worker& worker = *launch_.workers[found.now.worker];
  found.message = fmt::format("{} of {}: {}", kind_name(kind),
                              describe_address(worker, reinterpret_cast<const void*>(address)),
                              describe_party(found.now));
  if (kind != RaceKind::kOutsideShared) found.message += "; earlier " + describe_party(found.earlier);
  reports_->push_back(std::move(found));
  if (reported_.size() < launch_.options.max_reports) return;
  // The fiber goes no further, because what it reads now may be anything, such as a wild address.
  end_launch(launch_);
  abandon();
}

}  // namespace mkrt::emulator
