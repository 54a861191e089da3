#include "tests/softgpu/race.h"

#include <algorithm>

#include "tests/softgpu/machine.h"

namespace softgpu {
namespace {

constexpr uint32_t kBulkAgents = 64;  // greatest number of mbarriers in a CTA at which bulk copies complete
constexpr uint64_t kMaxWarps = 2048;
constexpr size_t kReads = 16;  // number of agents whose last read of a cell is remembered
constexpr uint64_t kRacePage = 4096, kCell = 2;

void join(Known& to, const Known& from) {
  if (from.clock > to.clock)
    to = from;
  else if (from.clock == to.clock)
    to.lanes |= from.lanes, to.tick = std::max(to.tick, from.tick);
}
void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t n = 0; n < from.size(); ++n) join(to[n], from[n]);
}
void join(History& to, const History& from) {
  join(to.all, from.all);
  join(to.shared, from.shared);
  join(to.global, from.global);
}

}  // namespace

Race::Race(Grid& grid) : grid_(grid) {
  warps_per_cta_ = (grid.launch.threads + 31) / 32;
  warps_ = warps_per_cta_ * grid.launch.blocks;
  agents_ = 2 * warps_ + kBulkAgents * grid.launch.blocks;
  states_.resize(warps_);
  for (State& s : states_) s.common = {Clock(agents_), Clock(2 * warps_), Clock(2 * warps_)};
  bulk_agents_.resize(grid.launch.blocks);
  shared_.resize(grid.launch.blocks);
  for (std::vector<Cell>& cells : shared_) cells.resize(grid.launch.shared_bytes / kCell + 1);
}

bool Race::can_watch(const Grid& grid) {
  return uint64_t{grid.launch.blocks} * ((grid.launch.threads + 31) / 32) <= kMaxWarps;
}

uint32_t Race::number(const Warp& w) const {
  return w.cta->index * warps_per_cta_ + w.index;
}

bool Race::covers(const Warp& w, uint32_t lane, const Access& before, Clock History::* which) const {
  const State& s = state(w);
  if (which == &History::all && before.agent == number(w))
    return before.clock < s.clock || before.lanes == 1u << lane;
  const auto has = [&](const Clock& c) {
    if (before.agent >= c.size()) return false;
    const Known& k = c[before.agent];
    return before.clock < k.clock ||
           (before.clock == k.clock && (before.lanes & ~k.lanes) == 0 && before.tick <= k.tick);
  };
  if (has(s.common.*which)) return true;
  for (const auto& [lanes, history] : s.extra)
    if ((lanes >> lane & 1) && has(history.*which)) return true;
  return false;
}

bool Race::ordered(const Warp& w, uint32_t lane, const Access& before, const Access& now, bool before_writes,
                   bool shared) const {
  if (before.agent == 0xffff) return true;
  const bool wide = before.scope != Scope::kCta && now.scope != Scope::kCta;
  if (before.atomic && now.atomic && (wide || before.cta == now.cta)) return true;
  if (!now.generic && before.generic && before_writes)
    return covers(w, lane, before, shared ? &History::shared : &History::global);
  return covers(w, lane, before, &History::all);
}

Race::Cell& Race::cell(const Cta& cta, uint64_t at, bool shared) {
  if (shared) return shared_[cta.index][at / kCell];
  std::vector<Cell>& page = global_[at / kRacePage];
  if (page.empty()) page.resize(kRacePage / kCell);
  return page[at % kRacePage / kCell];
}

void Race::report(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, bool shared, const char* what,
                  const Access& other) {
  std::string who = "a bulk copy";
  if (other.agent < 2 * warps_)
    who =
        (other.agent < warps_ ? "warp " : "cp.async of warp ") + std::to_string(other.agent % warps_per_cta_);
  const bool known = covers(w, lane, other, &History::all);
  grid_.machine->finding(&w, &i,
                         std::string(known ? "no proxy fence: " : "race: ") + what + " of CTA " +
                             std::to_string(other.cta) + " " + who + " at line " +
                             std::to_string(other.line) + "; lane " + std::to_string(lane) +
                             (shared ? ", shared offset " : ", address ") + hex(at));
}

void Race::remember_read(Cell& cell, const Access& now) {
  Access* mine = nullptr;
  for (Access& r : cell.reads)
    if (r.agent == now.agent && r.atomic == now.atomic && r.scope == now.scope && r.bytes == now.bytes)
      mine = &r;
  if (!mine && cell.reads.size() < kReads)
    mine = &cell.reads.emplace_back(now);
  else if (!mine)
    *(mine = &cell.reads[cell.next_read++ % kReads]) = now;
  else if (mine->clock != now.clock)
    *mine = now;
  mine->lanes |= now.lanes;
  mine->tick = now.tick, mine->line = now.line;
}

// Puts a write into the place of earlier accesses of its bytes. Accesses of the other byte stay.
void Race::remember_write(Cell& cell, const Access& now) {
  const auto kept = static_cast<uint8_t>(~now.bytes);
  for (Access* before : {&cell.write, &cell.beside}) before->bytes &= kept;
  for (Access& r : cell.reads) r.bytes &= kept;
  std::erase_if(cell.reads, [](const Access& r) { return r.bytes == 0; });
  if (cell.write.bytes != 0) cell.beside = cell.write;
  cell.write = now;
}

void Race::access(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared,
                  bool writes, Access now) {
  for (uint64_t c = at / kCell * kCell; c < at + bytes; c += kCell) {
    Cell& cell = this->cell(*w.cta, c, shared);
    now.bytes = static_cast<uint8_t>((c >= at ? 1 : 0) | (c + 1 < at + bytes ? 2 : 0));
    for (const Access* before : {&cell.write, &cell.beside})
      if ((before->bytes & now.bytes) && !ordered(w, lane, *before, now, true, shared))
        report(w, i, lane, c, shared, writes ? "writes behind a write" : "reads behind a write", *before);
    if (!writes) {
      remember_read(cell, now);
      continue;
    }
    for (const Access& r : cell.reads)
      if ((r.bytes & now.bytes) && !ordered(w, lane, r, now, false, shared)) {
        Access one = r;  // each lane that read is checked by itself
        for (uint32_t lanes = r.lanes; lanes; lanes &= lanes - 1) {
          one.lanes = lanes & (0u - lanes);
          if (!ordered(w, lane, one, now, false, shared))
            report(w, i, lane, c, shared, "writes behind a read", one);
        }
      }
    remember_write(cell, now);
  }
}

Race::Access Race::access_of(Warp& w, const Instruction& i, uint32_t lane) {
  const State& s = state(w);
  Access a;
  a.clock = s.clock, a.tick = s.tick, a.lanes = 1u << lane;
  a.line = i.line, a.cta = w.cta->index, a.agent = static_cast<uint16_t>(number(w));
  a.scope = i.scope, a.atomic = i.order != Order::kWeak;
  return a;
}

History Race::known(Warp& w, uint32_t lane) {
  State& s = state(w);
  History h = s.common;
  for (const auto& [lanes, history] : s.extra)
    if (lanes >> lane & 1) join(h, history);
  h.all[number(w)] = {s.clock, 1u << lane, s.tick};
  ++s.tick;
  return h;
}

void Race::learn(Warp& w, uint32_t lanes, const History& h) {
  State& s = state(w);
  if (lanes == w.live) return join(s.common, h);
  for (auto& [who, history] : s.extra)
    if (who == lanes) return join(history, h);
  s.extra.emplace_back(lanes, h);
}

// Publishes what the lane knows at the word `at`, for a release or for a relaxed store behind a fence.
void Race::tell(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, bool overwrites) {
  Location& location = locations_[at];
  if (overwrites) location = {};
  State& s = state(w);
  History h;
  Scope scope = i.scope;
  if (releases(i.order)) {
    h = known(w, lane);
  } else if (const auto fenced = s.fenced.find(lane); fenced != s.fenced.end()) {
    h = fenced->second;
    scope = std::min(scope, s.fence_scope[lane]);
  } else {
    return;
  }
  join(location.by[w.cta->index], h);
  if (scope != Scope::kCta) join(location.wide, h);
}

// Takes what is published at the word `at`: now for an acquire, at the lane's next fence for a relaxed load.
void Race::hear(Warp& w, const Instruction& i, uint32_t lane, uint64_t at) {
  const auto location = locations_.find(at);
  if (location == locations_.end()) return;
  History h;
  if (const auto own = location->second.by.find(w.cta->index); own != location->second.by.end())
    h = own->second;
  if (i.scope != Scope::kCta) join(h, location->second.wide);
  if (h.all.empty()) return;
  if (acquires(i.order))
    learn(w, 1u << lane, h);
  else
    join(state(w).read[lane], h);
}

void Race::load(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared) {
  if (i.order != Order::kWeak && !shared) hear(w, i, lane, at);
  access(w, i, lane, at, bytes, shared, false, access_of(w, i, lane));
}

void Race::store(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes, bool shared) {
  access(w, i, lane, at, bytes, shared, true, access_of(w, i, lane));
  if (i.order != Order::kWeak && !shared) tell(w, i, lane, at, true);
}

void Race::update(Warp& w, const Instruction& i, uint32_t lane, uint64_t at, uint32_t bytes) {
  hear(w, i, lane, at);
  access(w, i, lane, at, bytes, false, true, access_of(w, i, lane));
  tell(w, i, lane, at, false);
}

void Race::fence(Warp& w, uint32_t lanes, Order order, Scope scope) {
  State& s = state(w);
  each_lane(lanes, [&](uint32_t l) {
    if (acquires(order) && scope != Scope::kCta)
      if (const auto read = s.read.find(l); read != s.read.end()) {
        learn(w, 1u << l, read->second);
        s.read.erase(read);
      }
    if (!releases(order)) return;
    s.fenced[l] = known(w, l);
    s.fence_scope[l] = scope;
  });
}

void Race::fence_proxy(Warp& w, uint32_t lanes, bool shared, bool global) {
  each_lane(lanes, [&](uint32_t l) {
    History h = known(w, l);
    h.all.resize(2 * warps_);  // generic agents: warps, and their cp.async
    if (shared) join(h.shared, h.all);
    if (global) join(h.global, h.all);
    h.all.clear();
    learn(w, 1u << l, h);
  });
}

void Race::join_warp(Warp& w, uint32_t) {
  State& s = state(w);
  for (const auto& [lanes, history] : s.extra) join(s.common, history);
  s.extra.clear();
  ++s.clock;
}

void Race::join_barrier(const std::vector<Warp*>& warps) {
  History all{Clock(agents_), Clock(2 * warps_), Clock(2 * warps_)};
  for (Warp* w : warps) {
    join_warp(*w, w->live);
    State& s = state(*w);
    join(all, s.common);
    join(all.all[number(*w)], {s.clock, 0, 0});
  }
  for (Warp* w : warps) state(*w).common = all;
}

Race::Phase& Race::phase(const Cta& cta, uint32_t mbarrier) {
  return phases_[{cta.index, mbarrier}];
}

void Race::arrive(Warp& w, const Instruction& i, uint32_t lane, uint32_t mbarrier) {
  access(w, i, lane, mbarrier, 8, true, false, access_of(w, i, lane));  // the initialisation must come first
  join(phase(*w.cta, mbarrier).gathered, known(w, lane));
}

void Race::wait(Warp& w, const Instruction& i, uint32_t lanes, uint32_t mbarrier) {
  each_lane(lanes, [&](uint32_t l) { access(w, i, l, mbarrier, 8, true, false, access_of(w, i, l)); });
  learn(w, lanes, phase(*w.cta, mbarrier).done);
}

void Race::end_phase(Cta& cta, uint32_t mbarrier) {
  Phase& p = phase(cta, mbarrier);
  p.done = p.gathered;
  ++p.copies;
}

void Race::issue_bulk(Warp& w, const Instruction& i, uint32_t lane, uint64_t to, uint64_t from,
                      uint32_t bytes, uint32_t mbarrier) {
  Phase& p = phase(*w.cta, mbarrier);
  if (p.agent == 0) {
    const uint32_t n = bulk_agents_[w.cta->index]++;
    if (n == kBulkAgents) grid_.machine->fault(&w, &i, "too many mbarriers of bulk copies to look for races");
    p.agent = 2 * warps_ + w.cta->index * kBulkAgents + n;
  }
  Access a = access_of(w, i, lane);
  a.generic = false;
  a.agent = static_cast<uint16_t>(p.agent);
  a.clock = p.copies, a.lanes = 1, a.tick = 0;
  access(w, i, lane, from, bytes, false, false, a);
  access(w, i, lane, to, bytes, true, true, a);
  // The copy publishes what the async proxy sees, and not what the issuing thread did besides.
  History seen = known(w, lane);
  seen.all.clear();
  join(seen.all, seen.shared);
  join(seen.all, seen.global);
  join(p.gathered, seen);
}

void Race::end_bulk(Cta& cta, uint32_t mbarrier) {
  Phase& p = phase(cta, mbarrier);
  if (p.gathered.all.size() < agents_) p.gathered.all.resize(agents_);
  join(p.gathered.all[p.agent], {p.copies, 1, 0});
}

void Race::issue_async(Warp& w, const Instruction& i, uint32_t lane, uint64_t to, uint64_t from) {
  Access a = access_of(w, i, lane);
  a.agent = static_cast<uint16_t>(warps_ + number(w));
  a.clock = 1, a.tick = ++state(w).async_tick;
  access(w, i, lane, from, 16, false, false, a);
  access(w, i, lane, to, 16, true, true, a);
}

void Race::arrive_async(Warp& w, const Instruction& i, uint32_t lane, uint32_t mbarrier) {
  access(w, i, lane, mbarrier, 8, true, false, access_of(w, i, lane));
  // The arrival comes once the copies are complete, and releases nothing else of the thread.
  Clock& gathered = phase(*w.cta, mbarrier).gathered.all;
  if (gathered.size() < agents_) gathered.resize(agents_);
  join(gathered[warps_ + number(w)], {1, 1u << lane, state(w).async_tick});
}

void Race::load_async(Warp& w, const Instruction& i, uint64_t at, uint32_t bytes, bool done) {
  Access a = access_of(w, i, 0);
  a.generic = done;  // a read that is known to be done counts as a generic one
  access(w, i, 0, at, bytes, true, false, a);
}

}  // namespace softgpu
