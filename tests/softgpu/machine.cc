#include "tests/softgpu/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/softgpu/race.h"

namespace softgpu {
namespace {

constexpr uint64_t kTurnNs = 20, kIdleNs = 1000;
constexpr uint64_t kPatience = 500000;  // turns without progress after which the run counts as a deadlock

}  // namespace

Grid::~Grid() = default;

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
  return text;
}

void Machine::fault(const Warp* w, const Instruction* i, const std::string& what) {
  std::string where;
  if (w) where = w->cta->grid->kernel->name;
  if (i) where += " line " + std::to_string(i->line) + ": " + *i->name;
  if (w) where += " (CTA " + std::to_string(w->cta->index) + ", warp " + std::to_string(w->index) + ")";
  throw Fault(where + (where.empty() ? "" : ": ") + what);
}

void Machine::finding(const Warp* w, const Instruction* i, const std::string& what) {
  if (!settings.keep_going) fault(w, i, what);
  const std::string kind = "line " + std::to_string(i->line) + ": " + what.substr(0, what.find(';'));
  if (++findings[kind] == 1) std::fprintf(stderr, "softgpu: finding: %s\n", kind.c_str());
}

void Machine::wake(Warp& w) {
  awake_.push_back(&w);
}

void Machine::begin_copy(const Copy& copy) {
  ++copy.cta->copies;
  copies_.emplace(turns_ + 1 + draw(settings.copy_turns), copy);
}

void Machine::begin_cta(Grid& grid) {
  const Launch& l = grid.launch;
  const Kernel& k = *grid.kernel;
  auto cta = std::make_unique<Cta>();
  cta->grid = &grid;
  cta->index = grid.next_block++;
  cta->id = next_cta_++;
  cta->shared.assign(l.shared_bytes, 0xff);
  cta->holds_mbarrier.assign(l.shared_bytes / 8 + 1, 0);
  const uint32_t warps = (l.threads + 31) / 32;
  cta->live = warps;
  const size_t bytes = k.register_bytes + 64;
  for (uint32_t n = 0; n < warps; ++n) {
    auto w = std::make_unique<Warp>();
    w->cta = cta.get();
    w->index = n;
    if (auto& some = spare_[bytes]; !some.empty()) {
      w->registers = std::move(some.back());
      some.pop_back();
    } else {
      w->registers.reset(new uint8_t[bytes]);
    }
    uint8_t* base = w->registers.get();
    w->area[0] = base + (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
    w->area[1] = const_cast<uint8_t*>(k.constants.data());
    w->written.assign(k.registers, 0);
    w->busy.assign(k.registers, 0);
    w->last_access.assign(k.registers, 0);
    w->live = l.threads - 32 * n >= 32 ? ~0u : (1u << (l.threads - 32 * n)) - 1;
    w->splits.push_back({0, w->live, false});
    w->seen.fill({grid.first_view, {}});
    w->max_registers = k.registers_per_thread;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t values[kSpecials] = {0, 32 * n + lane, cta->index, l.threads, l.blocks, lane};
      for (uint32_t s = kTid; s < kSpecials; ++s) w->at<uint32_t>(k.specials[s])[lane] = values[s];
    }
    for (uint32_t s = 0; s < kSpecials; ++s) w->written[k.specials[s].reg] = ~0u;
    awake_.push_back(w.get());
    cta->warps.push_back(std::move(w));
  }
  ++grid.live;
  grid.ctas.push_back(std::move(cta));
}

void Machine::end_cta(Cta& cta) {
  Grid& grid = *cta.grid;
  const Warp& last = *cta.warps.back();
  if (cta.copies != 0) fault(&last, nullptr, std::to_string(cta.copies) + " copies are under way at exit");
  for (const Barrier& b : cta.barriers)
    if (b.threads != 0) fault(&last, nullptr, "threads wait at a barrier at exit");
  // All warps of a warpgroup must execute the same wgmma and setmaxnreg. PTX leaves anything else undefined.
  for (const auto& w : cta.warps) {
    const Warp& first = *cta.warps[w->index / 4 * 4];
    if (w->register_changes != first.register_changes || w->products_hash != first.products_hash)
      fault(w.get(), nullptr, "the warps of its warpgroup executed other wgmma or setmaxnreg");
  }
  cta.stores.drain_all(memory, cta.id, turns_);
  --grid.live;
  if (grid.live == 0 && grid.next_block == grid.launch.blocks) grid.ended = true;
}

// Begins grids and their CTAs. A grid begins when the one before it has ended. A grid that may overlap also
// begins once each CTA of the one before it has ended or allowed it.
void Machine::begin_grids() {
  for (const auto& g : grids_) {
    if (g->ended) continue;
    if (!g->begun) {
      const Grid* before = g->before;
      const auto lets_begin = [&] {
        return before->begun && before->next_block == before->launch.blocks &&
               std::all_of(before->ctas.begin(), before->ctas.end(),
                           [](const auto& c) { return c->launched_dependents || c->live == 0; });
      };
      const bool ready = !before || before->ended || (g->launch.may_overlap && lets_begin() && draw(4) == 0);
      if (!ready) continue;
      g->begun = true;
      g->first_view = !before || before->ended ? memory.stores() : before->first_view;
      if (settings.races && Race::can_watch(*g)) g->race = std::make_unique<Race>(*g);
    }
    while (g->next_block < g->launch.blocks && g->live < g->launch.resident) begin_cta(*g);
  }
}

void Machine::report_deadlock() {
  std::string who;
  for (const auto& g : grids_)
    for (const auto& c : g->ctas)
      for (const auto& w : c->warps)
        if (w->live && who.size() < 400)
          who += "; CTA " + std::to_string(c->index) + " warp " + std::to_string(w->index) + " at line " +
                 std::to_string(g->kernel->code[w->splits[0].pc].line);
  fault(nullptr, nullptr, "deadlock: nobody can go on" + who);
}

void Machine::finish_copies() {
  while (!copies_.empty() && copies_.begin()->first <= turns_) {
    const Copy copy = copies_.begin()->second;
    copies_.erase(copies_.begin());
    finish(copy);
  }
}

// Gives one warp its turn. Returns false once all grids have ended.
bool Machine::step() {
  ++turns_;
  clock_ns_ += kTurnNs;
  finish_copies();
  if (turns_ % 16 == 0 || awake_.empty()) begin_grids();
  if (awake_.empty()) {
    if (std::all_of(grids_.begin(), grids_.end(), [](const auto& g) { return g->ended; })) return false;
    const bool waits = std::any_of(grids_.begin(), grids_.end(), [](const auto& g) { return g->live != 0; });
    if (waits && copies_.empty()) report_deadlock();
    return true;
  }
  if (turns_ - last_progress_ > kPatience && copies_.empty()) report_deadlock();
  const uint32_t n = draw(static_cast<uint32_t>(awake_.size()));
  Warp* w = awake_[n];
  if (w->asleep_until > turns_) {
    // Time passes faster where all warps sleep.
    if (++idle_ > 4 * awake_.size()) clock_ns_ += kIdleNs;
    return true;
  }
  idle_ = 0;
  turn(*w);
  if (w->at_barrier || w->live == 0) {
    const auto at = awake_[n] == w ? awake_.begin() + n : std::find(awake_.begin(), awake_.end(), w);
    *at = awake_.back();
    awake_.pop_back();
  }
  return true;
}

std::string Machine::run(const std::vector<Launch>& launches) {
  if (!error.empty()) return error;
  const auto since = std::chrono::steady_clock::now();
  for (const Launch& l : launches) {
    auto g = std::make_unique<Grid>();
    g->machine = this;
    g->kernel = l.kernel;
    g->launch = l;
    g->before = grids_.empty() ? nullptr : grids_.back().get();
    grids_.push_back(std::move(g));
  }
  last_progress_ = turns_;
  try {
    begin_grids();
    while (step()) {
    }
  } catch (const Fault& f) {
    error = f.what();
  }
  end_run();
  statistics.launches += launches.size();
  statistics.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  return error;
}

void Machine::end_run() {
  awake_.clear();
  copies_.clear();
  for (const auto& g : grids_)
    for (const auto& c : g->ctas)
      for (const auto& w : c->warps) {
        statistics.warp_instructions += w->instructions;
        statistics.lane_instructions += w->lane_instructions;
        spare_[g->kernel->register_bytes + 64].push_back(std::move(w->registers));
      }
  grids_.clear();
  memory.forget();
}

}  // namespace softgpu
