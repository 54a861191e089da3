// A warp's turn goes to some of its diverged lanes (PTX ISA, "Independent thread scheduling").
#include <map>

#include "tests/softgpu/machine.h"
#include "tests/softgpu/views.h"
#include "tests/softgpu/wgmma.h"

namespace softgpu {
namespace {

// Joins groups of lanes that came to the same instruction.
void merge(Warp& w) {
  for (size_t a = 0; a < w.splits.size(); ++a)
    for (size_t b = a + 1; b < w.splits.size();) {
      if (w.splits[a].pc != w.splits[b].pc) {
        ++b;
        continue;
      }
      w.splits[a].lanes |= w.splits[b].lanes;
      w.splits[a].waits = false;
      w.splits[b] = w.splits.back();
      w.splits.pop_back();
    }
}

// Faults where a lane reads a register that it has not written. A move passes such a value on.
void check_written(Warp& w, const Instruction& i, uint32_t lanes) {
  const Operand* o = &w.cta->grid->kernel->operands[i.first_operand];
  uint32_t undefined = 0;
  for (uint32_t n = i.results; n < uint32_t{i.results} + i.sources; ++n)
    undefined |= lanes & ~w.written[o[n].reg];
  if (undefined && !i.copies)
    w.machine().fault(&w, &i, "lanes " + hex(undefined) + " read a register that nobody wrote");
  const bool tracks = w.cta->grid->kernel->has_wgmma && !i.late;
  for (uint32_t n = 0; n < i.results; ++n) {
    uint32_t& written = w.written[o[n].reg];
    written |= lanes;
    if (undefined && i.sources == 1) written &= ~undefined;
  }
  if (tracks)
    for (uint32_t n = 0; n < uint32_t{i.results} + i.sources; ++n) w.last_access[o[n].reg] = w.instructions;
}

}  // namespace

// Picks the lanes furthest behind as a rule, and any others now and then. Returns false where all wait for
// each other.
bool Machine::pick(Warp& w) {
  size_t best = w.splits.size();
  uint32_t ready = 0;
  const bool any = settings.any_split != 0 && draw(settings.any_split) == 0;
  for (size_t s = 0; s < w.splits.size(); ++s) {
    if (w.splits[s].waits) continue;
    ++ready;
    if (best == w.splits.size() || (any ? draw(ready) == 0 : w.splits[s].pc < w.splits[best].pc)) best = s;
  }
  if (best == w.splits.size()) return false;
  w.now = best;
  return true;
}

void Machine::execute_branch(Warp& w, const Instruction& i, uint32_t taken) {
  Split& s = w.splits[w.now];
  if (i.kind == Kind::kBranch) {
    const uint32_t stays = s.lanes & ~taken;
    if (stays == 0) {
      s.pc = i.target;
    } else {
      ++s.pc;
      s.lanes = stays;
      if (taken != 0) w.splits.push_back({i.target, taken, false});
    }
  } else {
    const std::vector<uint32_t>& table = w.cta->grid->kernel->tables[i.target];
    const uint32_t* index = w.at<uint32_t>(w.operand(i, 0));
    std::map<uint32_t, uint32_t> lanes_to;
    each_lane(taken, [&](uint32_t l) {
      if (index[l] >= table.size())
        fault(&w, &i, "index " + std::to_string(index[l]) + " of " + std::to_string(table.size()));
      lanes_to[table[index[l]]] |= 1u << l;
    });
    if (s.lanes != taken) lanes_to[s.pc + 1] |= s.lanes & ~taken;
    s.pc = lanes_to.begin()->first;
    s.lanes = lanes_to.begin()->second;
    for (auto at = std::next(lanes_to.begin()); at != lanes_to.end(); ++at)
      w.splits.push_back({at->first, at->second, false});
  }
  if (w.splits.size() > 1) merge(w);
}

void Machine::execute_return(Warp& w, uint32_t gone) {
  Split& s = w.splits[w.now];
  w.live &= ~gone;
  s.lanes &= ~gone;
  if (s.lanes != 0) {
    ++s.pc;
    merge(w);
  } else {
    s = w.splits.back();
    w.splits.pop_back();
    for (Split& other : w.splits) other.waits = false;  // fewer live lanes have to meet now
  }
  if (w.live != 0) return;
  if (!w.products.empty()) fault(&w, nullptr, "a wgmma is under way at exit");
  if (--w.cta->live == 0) end_cta(*w.cta);
}

void Machine::cover(const Instruction& i) {
  if (executed.size() <= i.line) executed.resize(i.line + 1);
  executed[i.line] = 1;
}

void Machine::turn(Warp& w) {
  const Kernel& k = *w.cta->grid->kernel;
  if (!w.cta->stores.empty() && draw(settings.hold_turns) == 0) drain_some(*w.cta);
  if (!w.products.empty() && draw(4) == 0) complete_product(w);
  if (!pick(w)) {
    w.now = 0;
    fault(&w, &k.code[w.splits[0].pc],
          "lanes are apart: others wait at line " + std::to_string(k.code[w.splits.back().pc].line));
  }
  for (uint32_t left = 1 + draw(settings.quantum); left-- > 0;) {
    if (w.splits.size() == 1)
      w.now = 0;
    else if (!pick(w))
      return;
    Split& s = w.splits[w.now];
    const Instruction& i = k.code[s.pc];
    if (i.converged && s.lanes != w.live) {
      s.waits = true;
      continue;
    }
    ++w.instructions;
    uint32_t lanes = s.lanes;
    if (i.guarded) {
      if (lanes & ~w.written[i.guard.reg]) fault(&w, &i, "the guard is a register that nobody wrote");
      const uint32_t guard = *w.at<uint32_t>(i.guard);
      lanes &= i.negated ? ~guard : guard;
    }
    w.lane_instructions += static_cast<uint32_t>(__builtin_popcount(lanes));
    if (!settings.coverage.empty() && lanes != 0) cover(i);
    if (i.kind == Kind::kReturn) {
      if (lanes == 0) {
        ++s.pc;
        continue;
      }
      execute_return(w, lanes);
      if (w.live == 0 || w.splits.empty()) return;
      continue;
    }
    if (i.kind != Kind::kPlain) {
      execute_branch(w, i, lanes);
      continue;
    }
    Flow flow = Flow::kNext;
    if (lanes != 0) {
      if (i.converged && lanes != s.lanes) fault(&w, &i, "the guard of an instruction for all lanes differs");
      check_written(w, i, lanes);
      if (!w.products.empty()) check_busy(w, i);
      flow = i.execute(w, i, lanes);
      if (flow == Flow::kRetry) {
        --w.instructions;
        w.lane_instructions -= static_cast<uint32_t>(__builtin_popcount(lanes));
        return;
      }
    }
    last_progress_ = turns_;
    ++w.splits[w.now].pc;
    if (w.splits.size() > 1) merge(w);
    if (flow == Flow::kYield || w.at_barrier) return;
  }
}

}  // namespace softgpu
