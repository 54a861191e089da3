// Warps load and store here (PTX ISA, "ld", "st"; "Memory Consistency Model").
#include <algorithm>

#include "tests/softgpu/address.h"
#include "tests/softgpu/forms.h"
#include "tests/softgpu/race.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

// Loads element `n` of every lane from from[lane] into a register that may be wider.
template <class T>
void take_element(Warp& w, const Operand& o, uint32_t lanes, uint32_t n, const uint8_t* const* from) {
  const auto to = [&](auto* d) {
    each_lane(lanes, [&](uint32_t l) {
      T value;
      std::memcpy(&value, from[l] + n * sizeof(T), sizeof(T));
      d[l] = static_cast<std::remove_reference_t<decltype(*d)>>(value);
    });
  };
  if (o.bytes == 2) {
    if constexpr (sizeof(T) <= 2) to(w.at<uint16_t>(o));
  } else if (o.bytes == 4) {
    if constexpr (sizeof(T) <= 4) to(w.at<uint32_t>(o));
  } else {
    to(w.at<uint64_t>(o));
  }
}

template <class T>
void give_element(Warp& w, const Operand& o, uint32_t lanes, uint32_t n, uint8_t (*to)[16]) {
  const auto from = [&](const auto* s) {
    each_lane(lanes, [&](uint32_t l) {
      const T value = static_cast<T>(s[l]);
      std::memcpy(to[l] + n * sizeof(T), &value, sizeof(T));
    });
  };
  if (o.bytes == 2)
    from(w.at<uint16_t>(o));
  else if (o.bytes == 4)
    from(w.at<uint32_t>(o));
  else
    from(w.at<uint64_t>(o));
}

void read_global(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, Allocation* block,
                 uint32_t bytes, const uint8_t** from, uint8_t (*slow)[16]) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  const bool no_past = !m.settings.weak;
  if (i.order == Order::kWeak && (no_past || (block && block->newest_store == 0 && cta.stores.empty()))) {
    each_lane(lanes, [&](uint32_t l) { from[l] = reinterpret_cast<const uint8_t*>(a.at[l]); });
    return;
  }
  each_lane(lanes, [&](uint32_t l) {
    from[l] = slow[l];
    if (i.order == Order::kWeak) {
      const Allocation* own = block ? block : m.memory.find(a.at[l], bytes);
      if (m.memory.last_store(*own, a.at[l], bytes) <= w.seen[l].memory && !cta.stores.may_hold(a.at[l]))
        from[l] = reinterpret_cast<const uint8_t*>(a.at[l]);
      else
        read_memory(cta, w.seen[l].memory, a.at[l], bytes, slow[l]);
    } else if ((i.order == Order::kRelaxed || i.scope == Scope::kCta) && !no_past) {
      // Scope .cta orders nothing among CTAs: an acquire of it may show what other CTAs stored long ago.
      read_coherent(cta, w.seen[l].memory, a.at[l], bytes, slow[l]);
    } else {
      if (i.order == Order::kAcquire) acquire_memory(w, 1u << l, i.scope);
      read_memory(cta, m.memory.stores(), a.at[l], bytes, slow[l]);
      cta.newest_seen[a.at[l]] = m.memory.stores();
    }
  });
}

template <class T, bool Shared>
Flow load(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t bytes = sizeof(T) * i.count;
  Addresses a = addresses_of(w, i, i.count, 0, lanes);
  const uint8_t* from[32];
  uint8_t slow[32][16];
  if constexpr (Shared) {
    check_shared(w, i, a, lanes, bytes);
    each_lane(lanes, [&](uint32_t l) { from[l] = w.cta->shared.data() + a.at[l]; });
  } else {
    Allocation* block = check_global(w, i, a, lanes, bytes);
    read_global(w, i, a, lanes, block, bytes, from, slow);
  }
  if (Race* race = w.cta->grid->race.get())
    each_lane(lanes, [&](uint32_t l) { race->load(w, i, l, a.at[l], bytes, Shared); });
  for (uint32_t n = 0; n < i.count; ++n) take_element<T>(w, w.operand(i, n), lanes, n, from);
  return i.order == Order::kWeak ? Flow::kNext : Flow::kYield;
}

template <class T, bool Shared>
Flow store(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t bytes = sizeof(T) * i.count;
  Addresses a = addresses_of(w, i, 0, 0, lanes);
  uint8_t value[32][16];
  for (uint32_t n = 0; n < i.count; ++n) give_element<T>(w, w.operand(i, 1 + n), lanes, n, value);
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  if constexpr (Shared) {
    check_shared(w, i, a, lanes, bytes);
    each_lane(lanes, [&](uint32_t l) { std::memcpy(cta.shared.data() + a.at[l], value[l], bytes); });
  } else {
    check_global(w, i, a, lanes, bytes);
    cta.stores.begin_instruction();
    each_lane(lanes, [&](uint32_t l) {
      if (i.order == Order::kRelease) {
        release_memory(w, l, i.scope);
        drain_bytes(cta, a.at[l], bytes);
      }
      if (!m.settings.weak)
        m.memory.overwrite(a.at[l], value[l], bytes);
      else if (i.order == Order::kRelease && i.scope != Scope::kCta)
        m.memory.store(a.at[l], value[l], bytes, cta.id, m.turns());
      else
        cta.stores.add(a.at[l], value[l], bytes, w.index, l);
    });
  }
  if (Race* race = cta.grid->race.get())
    each_lane(lanes, [&](uint32_t l) { race->store(w, i, l, a.at[l], bytes, Shared); });
  return i.order == Order::kWeak ? Flow::kNext : Flow::kYield;
}

template <class T>
Flow load_parameter(Warp& w, const Instruction& i, uint32_t lanes) {
  const std::vector<uint8_t>& p = w.cta->grid->launch.parameters;
  const uint64_t at = static_cast<uint64_t>(i.displacement[0]);
  if (at > p.size() || sizeof(T) > p.size() - at) w.machine().fault(&w, &i, "outside of the parameters");
  T value;
  std::memcpy(&value, p.data() + at, sizeof(T));
  T* to = w.at<T>(w.operand(i, 0));
  each_lane(lanes, [&](uint32_t l) { to[l] = value; });
  return Flow::kNext;
}

// Shared memory has no generic addresses here, so the argument is none of them. The result faults when used.
uint64_t to_shared(uint64_t generic) {
  return generic | 0xdeadull << 48;
}

template <class T, bool Shared>
void add_element(Forms& f, const std::string& type) {
  const std::string space = Shared ? "shared" : "global";
  for (const uint8_t count : {1, 2, 4}) {
    if (sizeof(T) * count > 16) continue;
    const std::string vector = count == 1 ? "." : ".v" + std::to_string(count) + ".";
    Form ld{load<T, Shared>, std::string(count, 'x') + "=a"},
        st{store<T, Shared>, "=a" + std::string(count, 'x')};
    for (Form* form : {&ld, &st}) form->bytes = sizeof(T), form->count = count;
    f["ld." + space + vector + type] = ld;
    f["st." + space + vector + type] = st;
    // Shared memory is visible to the CTA alone, so all scopes are equal.
    for (const char* scope : {"cta", "gpu", "sys"}) {
      if (!Shared) break;
      Form relaxed_ld = ld, relaxed_st = st;
      relaxed_ld.order = relaxed_st.order = Order::kRelaxed;
      f[std::string("ld.relaxed.") + scope + ".shared" + vector + type] = relaxed_ld;
      f[std::string("st.relaxed.") + scope + ".shared" + vector + type] = relaxed_st;
    }
    if (Shared) continue;
    f["ld.global.nc" + vector + type] = ld;
    f["ld.global.L1::no_allocate" + vector + type] = ld;
    for (const auto& [scope, name] :
         {std::pair(Scope::kCta, "cta"), std::pair(Scope::kGpu, "gpu"), std::pair(Scope::kSys, "sys")}) {
      ld.scope = st.scope = scope;
      ld.order = Order::kAcquire, st.order = Order::kRelease;
      f[std::string("ld.acquire.") + name + ".global" + vector + type] = ld;
      f[std::string("st.release.") + name + ".global" + vector + type] = st;
      ld.order = st.order = Order::kRelaxed;
      f[std::string("ld.relaxed.") + name + ".global" + vector + type] = ld;
      f[std::string("st.relaxed.") + name + ".global" + vector + type] = st;
    }
  }
}

template <class T>
void add_type(Forms& f, const std::string& bits) {
  for (const char* kind : {"b", "u"}) {
    add_element<T, false>(f, kind + bits);
    add_element<T, true>(f, kind + bits);
  }
  // The sign of a loaded element fills the rest of a wider register.
  add_element<std::make_signed_t<T>, false>(f, "s" + bits);
  add_element<std::make_signed_t<T>, true>(f, "s" + bits);
}

}  // namespace

void add_access_forms(Forms& f) {
  add_type<uint8_t>(f, "8");
  add_type<uint16_t>(f, "16");
  add_type<uint32_t>(f, "32");
  add_type<uint64_t>(f, "64");
  for (const char* kind : {"b", "u"}) {
    f[std::string("ld.param.") + kind + "32"] = {load_parameter<uint32_t>, "w=a"};
    f[std::string("ld.param.") + kind + "64"] = {load_parameter<uint64_t>, "d=a"};
  }
  f["ld.global.f32"] = f["ld.global.b32"], f["st.global.f32"] = f["st.global.b32"];
  f["ld.shared.f32"] = f["ld.shared.b32"], f["st.shared.f32"] = f["st.shared.b32"];
  f["cvta.to.shared.u64"] = map<+[](uint64_t a) { return to_shared(a); }>();
}

}  // namespace softgpu
