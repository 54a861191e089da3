// Warps of a CTA wait at these instructions (PTX ISA, "bar", "setmaxnreg", "griddepcontrol", "nanosleep").
#include "tests/softgpu/forms.h"
#include "tests/softgpu/race.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

void release_barrier(Machine& m, Barrier& b, Warp& last) {
  join_barrier(b.waiting);
  for (Warp* other : b.waiting) {
    other->at_barrier = false;
    if (other != &last) m.wake(*other);
  }
  b = {};
}

// Executes bar.sync. `Counted`: the instruction gives the number of threads.
template <bool Counted>
Flow barrier(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(lanes));
  const uint32_t id = w.at<uint32_t>(w.operand(i, 0))[lane];
  uint32_t threads = cta.grid->launch.threads;
  if constexpr (Counted) threads = w.at<uint32_t>(w.operand(i, 1))[lane];
  if (id > 15) m.fault(&w, &i, "barrier " + std::to_string(id) + " of 16");
  if (threads == 0 || threads % 32 != 0 || threads > cta.grid->launch.threads)
    m.fault(&w, &i,
            "a barrier of " + std::to_string(threads) + " threads in a CTA of " +
                std::to_string(cta.grid->launch.threads));
  Barrier& b = cta.barriers[id];
  if (b.threads != 0 && b.expected != threads)
    m.fault(&w, &i,
            "barrier " + std::to_string(id) + " expects " + std::to_string(b.expected) + " threads, not " +
                std::to_string(threads));
  ++m.statistics.barriers;
  b.expected = threads;
  b.threads += 32;
  b.waiting.push_back(&w);
  w.at_barrier = true;
  if (b.threads == threads) release_barrier(m, b, w);
  return Flow::kYield;
}

// setmaxnreg.dec returns registers to the CTA's pool. setmaxnreg.inc waits until the pool has as many as it
// needs.
template <bool Increase>
Flow set_registers(Warp& w, const Instruction& i, uint32_t) {
  Machine& m = w.machine();
  const uint32_t wanted = *w.at<uint32_t>(w.operand(i, 0));
  if (wanted % 8 != 0 || wanted < 24 || wanted > 256)
    m.fault(&w, &i, std::to_string(wanted) + " registers: expected a multiple of 8 from 24 to 256");
  ++w.register_changes;
  if (w.max_registers == 0) return Flow::kNext;  // the cubin does not state the kernel's register count
  if (Increase ? wanted < w.max_registers : wanted > w.max_registers)
    m.fault(&w, &i,
            "from " + std::to_string(w.max_registers) + " to " + std::to_string(wanted) + " registers");
  const uint32_t change = 32 * (Increase ? wanted - w.max_registers : w.max_registers - wanted);
  if (Increase && w.cta->free_registers < change) {
    --w.register_changes;
    m.sleep(w, 40);
    return Flow::kRetry;
  }
  w.cta->free_registers += Increase ? 0u - change : change;
  w.max_registers = wanted;
  return Flow::kYield;
}

Flow nanosleep(Warp& w, const Instruction&, uint32_t) {
  w.machine().sleep(w, 40);
  return Flow::kYield;
}

Flow launch_dependents(Warp& w, const Instruction&, uint32_t) {
  w.cta->launched_dependents = true;
  return Flow::kYield;
}

// Waits until the grid that this one may overlap has ended, and then sees what it stored.
Flow await_grids(Warp& w, const Instruction&, uint32_t lanes) {
  Machine& m = w.machine();
  const Grid& grid = *w.cta->grid;
  if (grid.launch.may_overlap && grid.before && !grid.before->ended) {
    m.sleep(w, 40);
    return Flow::kRetry;
  }
  acquire_memory(w, lanes, Scope::kGpu);
  return Flow::kNext;
}

}  // namespace

void add_barrier_forms(Forms& f) {
  f["bar.sync"] = f["barrier.sync.aligned"] = {barrier<true>, "=ww", true};
  f["bar.sync by all"] = {barrier<false>, "=w", true};
  f["setmaxnreg.inc.sync.aligned.u32"] = {set_registers<true>, "=n", true};
  f["setmaxnreg.dec.sync.aligned.u32"] = {set_registers<false>, "=n", true};
  f["nanosleep.u32"] = {nanosleep, "=w"};
  f["griddepcontrol.launch_dependents"] = {launch_dependents, "="};
  f["griddepcontrol.wait"] = {await_grids, "="};
}

}  // namespace softgpu
