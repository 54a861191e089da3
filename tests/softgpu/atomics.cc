// Global memory is updated atomically (PTX ISA, "atom", "red") and ordered by fences ("membar/fence").
#include <algorithm>

#include "tests/softgpu/address.h"
#include "tests/softgpu/forms.h"
#include "tests/softgpu/mbarrier.h"
#include "tests/softgpu/race.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

enum class Update { kAdd, kMin, kMax, kAnd, kOr, kExchange, kSwap };

template <class T>
T updated(Update how, T before, T b, T c) {
  switch (how) {
    case Update::kAdd:
      return before + b;
    case Update::kMin:
      return std::min(before, b);
    case Update::kMax:
      return std::max(before, b);
    case Update::kAnd:
      return before & b;
    case Update::kOr:
      return before | b;
    case Update::kExchange:
      return b;
    case Update::kSwap:
      return before == b ? c : before;
  }
  return before;
}

// Reads and writes what memory holds now, as one step for each lane.
template <class T, Update How, bool Returns>
Flow update(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  const Addresses a = addresses_of(w, i, Returns, 0, lanes);
  check_global(w, i, a, lanes, sizeof(T));
  const T* b = w.at<T>(w.operand(i, Returns + 1));
  const T* c = How == Update::kSwap ? w.at<T>(w.operand(i, Returns + 2)) : b;
  T out[32];
  each_lane(lanes, [&](uint32_t l) {
    if (releases(i.order)) release_memory(w, l, i.scope);
    drain_bytes(cta, a.at[l], sizeof(T));
    if (acquires(i.order)) acquire_memory(w, 1u << l, i.scope);
    std::memcpy(&out[l], reinterpret_cast<const void*>(a.at[l]), sizeof(T));
    const T after = updated(How, out[l], b[l], c[l]);
    if (m.settings.weak)
      m.memory.store(a.at[l], &after, sizeof(T), cta.id, m.turns());
    else
      m.memory.overwrite(a.at[l], &after, sizeof(T));
    if (Race* race = cta.grid->race.get()) race->update(w, i, l, a.at[l], sizeof(T));
  });
  if (Returns) write_lanes(w, w.operand(i, 0), lanes, out);
  return Flow::kYield;
}

Flow fence(Warp& w, const Instruction& i, uint32_t lanes) {
  if (releases(i.order)) each_lane(lanes, [&](uint32_t l) { release_memory(w, l, i.scope); });
  if (acquires(i.order)) acquire_memory(w, lanes, i.scope);
  if (Race* race = w.cta->grid->race.get()) race->fence(w, lanes, i.order, i.scope);
  return Flow::kNext;
}

// fence.proxy.async makes the generic accesses so far visible to the async proxy.
template <bool SharedMemory, bool GlobalMemory>
Flow fence_proxy(Warp& w, const Instruction&, uint32_t lanes) {
  if (SharedMemory) show_mbarriers(*w.cta);
  if (GlobalMemory) each_lane(lanes, [&](uint32_t l) { release_memory(w, l, Scope::kGpu); });
  if (Race* race = w.cta->grid->race.get()) race->fence_proxy(w, lanes, SharedMemory, GlobalMemory);
  return Flow::kNext;
}

struct Named {
  const char* name;
  Order order;
};
constexpr Named kOrders[] = {{"relaxed", Order::kRelaxed},
                             {"acquire", Order::kAcquire},
                             {"release", Order::kRelease},
                             {"acq_rel", Order::kAcqRel}};
constexpr std::pair<const char*, Scope> kScopes[] = {
    {"cta", Scope::kCta}, {"gpu", Scope::kGpu}, {"sys", Scope::kSys}};

template <class T, Update How>
void add_update(Forms& f, const std::string& name) {
  const std::string letter = sizeof(T) == 4 ? "w" : "d";
  const std::string sources = How == Update::kSwap ? letter + letter : letter;
  Form atom{update<T, How, true>, letter + "=a" + sources}, red{update<T, How, false>, "=a" + sources};
  for (const auto& [order, value] : kOrders)
    for (const auto& [scope, width] : kScopes) {
      atom.order = red.order = value;
      atom.scope = red.scope = width;
      const std::string middle = std::string(order) + "." + scope + ".global.";
      f["atom." + middle + name] = atom;
      if (!acquires(value)) f["red." + middle + name] = red;  // PTX has relaxed and release ones
    }
}

}  // namespace

void add_atomic_forms(Forms& f) {
  add_update<uint32_t, Update::kAdd>(f, "add.u32");
  add_update<uint32_t, Update::kAdd>(f, "add.s32");
  add_update<uint64_t, Update::kAdd>(f, "add.u64");
  add_update<uint32_t, Update::kMin>(f, "min.u32");
  add_update<uint32_t, Update::kMax>(f, "max.u32");
  add_update<uint64_t, Update::kMax>(f, "max.u64");
  add_update<uint32_t, Update::kAnd>(f, "and.b32");
  add_update<uint32_t, Update::kOr>(f, "or.b32");
  add_update<uint32_t, Update::kExchange>(f, "exch.b32");
  add_update<uint32_t, Update::kSwap>(f, "cas.b32");
  add_update<uint64_t, Update::kSwap>(f, "cas.b64");
}

void add_fence_forms(Forms& f) {
  for (const auto& [scope, width] : kScopes) {
    for (const auto& [order, value] : kOrders) {
      if (value == Order::kRelaxed) continue;
      Form form{fence, "="};
      form.order = value, form.scope = width;
      f[std::string("fence.") + order + "." + scope] = form;
    }
    // The order of fence.sc instructions among each other is not modelled. They acquire and release.
    f[std::string("fence.sc.") + scope] = f[std::string("fence.acq_rel.") + scope];
  }
  f["fence.proxy.async"] = {fence_proxy<true, true>, "="};
  f["fence.proxy.async.global"] = {fence_proxy<false, true>, "="};
  f["fence.proxy.async.shared::cta"] = {fence_proxy<true, false>, "="};
}

}  // namespace softgpu
