// These edits change slots, arenas, counters and the ring.
#include <algorithm>

#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

// Returns a random tensor with a slot whose kind `fits`; invalid where there is none.
template <class Fits>
TensorId slotted(Edit& e, Fits fits) {
  std::vector<TensorId> found;
  for (TensorId t : e.s.program.tensors.ids())
    if (e.s.slots[t.index].bytes != 0 && fits(e.s.program.tensors[t].kind)) found.push_back(t);
  return found.empty() ? TensorId{} : e.rng.pick(found);
}
bool is_activation(TensorKind kind) {
  return kind == TensorKind::kActivation;
}
bool is_output(TensorKind kind) {
  return kind == TensorKind::kOutput;
}
bool is_weight(TensorKind kind) {
  return kind == TensorKind::kWeight || kind == TensorKind::kTable;
}
bool is_any(TensorKind) {
  return true;
}

bool shift_slot(Edit& e) {
  const TensorId t = slotted(e, is_activation);
  if (!t.valid()) return false;
  Slot& slot = e.s.slots[t.index];
  const uint64_t by = 256 * static_cast<uint64_t>(e.rng.between(1, 4));
  if (e.rng.one_in(2) && slot.offset >= by)
    slot.offset -= by;
  else
    slot.offset += by;
  return true;
}

bool misalign_slot(Edit& e) {
  const TensorId t = slotted(e, is_any);
  if (!t.valid()) return false;
  e.s.slots[t.index].offset += static_cast<uint64_t>(e.rng.between(1, 255));
  return true;
}

bool overlap_slots(Edit& e) {
  const TensorId a = slotted(e, is_activation), b = slotted(e, is_activation);
  if (!a.valid() || a == b) return false;
  e.s.slots[a.index].offset = e.s.slots[b.index].offset;
  return true;
}

bool swap_slots(Edit& e) {
  const TensorId a = slotted(e, is_activation), b = slotted(e, is_activation);
  if (!a.valid() || a == b) return false;
  std::swap(e.s.slots[a.index].offset, e.s.slots[b.index].offset);
  return true;
}

bool overlap_output(Edit& e) {
  const TensorId a = slotted(e, is_activation), b = slotted(e, is_output);
  if (!a.valid() || !b.valid()) return false;
  e.s.slots[e.rng.one_in(2) ? a.index : b.index].offset =
      e.s.slots[e.rng.one_in(2) ? b.index : a.index].offset;
  return true;
}

bool overlap_weights(Edit& e) {
  const TensorId a = slotted(e, is_weight), b = slotted(e, is_weight);
  if (!a.valid() || a == b) return false;
  e.s.slots[a.index].offset = e.s.slots[b.index].offset;
  return true;
}

bool shrink_slot(Edit& e) {
  const TensorId t = slotted(e, is_any);
  if (!t.valid()) return false;
  Slot& slot = e.s.slots[t.index];
  slot.bytes = e.rng.one_in(2)
                   ? slot.bytes / 2
                   : slot.bytes - std::min<uint64_t>(slot.bytes, static_cast<uint64_t>(e.rng.between(1, 16)));
  return true;
}

bool empty_slot(Edit& e) {
  const TensorId t = slotted(e, is_any);
  if (!t.valid()) return false;
  e.s.slots[t.index] = {};
  return true;
}

bool grow_slot(Edit& e) {
  const TensorId t = slotted(e, is_any);
  if (!t.valid()) return false;
  e.s.slots[t.index].bytes += static_cast<uint64_t>(e.rng.between(1, 4096));
  return true;
}

bool shrink_workspace(Edit& e) {
  e.s.workspace_bytes -=
      std::min<uint64_t>(e.s.workspace_bytes, static_cast<uint64_t>(e.rng.between(1, 4096)));
  return true;
}

bool shrink_weights(Edit& e) {
  e.s.weight_bytes -= std::min<uint64_t>(e.s.weight_bytes, static_cast<uint64_t>(e.rng.between(1, 4096)));
  return true;
}

bool grow_arenas(Edit& e) {
  e.s.workspace_bytes += 256;
  e.s.weight_bytes += 256;
  return true;
}

bool fewer_counters(Edit& e) {
  e.s.event_cells -= std::min<uint32_t>(e.s.event_cells, static_cast<uint32_t>(e.rng.between(1, 8)));
  return true;
}

bool more_counters(Edit& e) {
  e.s.event_cells += static_cast<uint32_t>(e.rng.between(1, 8));
  return true;
}

bool shift_base(Edit& e) {
  uint32_t& base = e.rng.pick(e.s.event_base);
  base = e.rng.one_in(2) || base == 0 ? base + 1 : base - 1;
  return true;
}

bool share_base(Edit& e) {
  uint32_t &a = e.rng.pick(e.s.event_base), &b = e.rng.pick(e.s.event_base);
  if (a == b) return false;
  a = b;
  return true;
}

bool swap_bases(Edit& e) {
  uint32_t &a = e.rng.pick(e.s.event_base), &b = e.rng.pick(e.s.event_base);
  std::swap(a, b);
  return a != b;
}

bool base_at_end(Edit& e) {  // room for all cells, or for all but one
  const EventId event{static_cast<uint32_t>(e.rng.below(e.s.program.events.size()))};
  const uint32_t cells = max_cells(e.s.program, event);
  e.s.event_base[event.index] = e.s.event_cells;
  e.s.event_cells += cells - (e.rng.one_in(2) ? 1 : 0);
  return true;
}

bool ring_stages(Edit& e) {
  const int64_t stages = e.rng.one_in(2) ? e.rng.between(0, 3) : e.rng.between(0, 70);
  e.s.ring.stages = static_cast<uint32_t>(stages);
  return true;
}

bool ring_bytes(Edit& e) {
  const uint32_t was = e.s.ring.stage_bytes;
  e.s.ring.stage_bytes = e.rng.one_in(3) ? was * 2 : e.rng.one_in(2) ? was / 2 : was - 16;
  return true;
}

bool change_machine(Edit& e) {
  static const std::vector<std::string> machines = {"a100", "h100", "h200", "emulator", "rtx4090", "rtx5090"};
  e.s.machine = e.rng.pick(machines);
  return true;
}

constexpr MutantClass kMemoryClasses[] = {
    {"slot_shift", shift_slot},
    {"slot_misalign", misalign_slot},
    {"slot_overlap", overlap_slots},
    {"slot_swap", swap_slots},
    {"slot_overlap_output", overlap_output},
    {"slot_overlap_weight", overlap_weights},
    {"slot_shrink", shrink_slot},
    {"slot_empty", empty_slot},
    {"slot_grow", grow_slot},
    {"arena_workspace_shrink", shrink_workspace},
    {"arena_weights_shrink", shrink_weights},
    {"arena_grow", grow_arenas},
    {"counters_fewer", fewer_counters},
    {"counters_more", more_counters},
    {"base_shift", shift_base},
    {"base_share", share_base},
    {"base_swap", swap_bases},
    {"base_at_end", base_at_end},
    {"ring_stages", ring_stages},
    {"ring_bytes", ring_bytes},
    {"machine", change_machine},
};

}  // namespace

std::span<const MutantClass> memory_classes() {
  return kMemoryClasses;
}

}  // namespace mkc::attack
