// Instructions stand in tables. Each part of the instruction set adds its own forms.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "tests/softgpu/instruction.h"
#include "tests/softgpu/machine.h"

namespace softgpu {

// Types of operands have their names in PTX.
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

using Forms = std::unordered_map<std::string, Form>;

void add_integer_forms(Forms&);
void add_float_forms(Forms&);
void add_bf16x2_forms(Forms&);  // arithmetic of two bf16 halves
void add_convert_forms(Forms&);
void add_compare_forms(Forms&);
void add_warp_forms(Forms&);
void add_access_forms(Forms&);
void add_atomic_forms(Forms&);
void add_fence_forms(Forms&);
void add_barrier_forms(Forms&);
void add_mbarrier_forms(Forms&);
void add_copy_forms(Forms&);
void add_mma_forms(Forms&);
void add_wgmma_forms(Forms&);

// `Lanes` reads an operand as one value of type T for each lane. bool is a predicate.
template <class T>
struct Lanes {
  const T* p;
  Lanes(Warp& w, const Operand& o) : p(w.at<T>(o)) {}
  T operator[](uint32_t l) const { return p[l]; }
  static constexpr char kLetter = sizeof(T) == 2 ? 'h' : sizeof(T) == 4 ? 'w' : 'd';
};
template <>
struct Lanes<bool> {
  uint32_t bits;
  Lanes(Warp& w, const Operand& o) : bits(*w.at<uint32_t>(o)) {}
  bool operator[](uint32_t l) const { return bits >> l & 1; }
  static constexpr char kLetter = 'p';
};

template <class T>
void write_lanes(Warp& w, const Operand& o, uint32_t lanes, const T* from) {
  T* to = w.at<T>(o);
  if (lanes == ~0u)
    std::memcpy(to, from, 32 * sizeof(T));
  else
    each_lane(lanes, [&](uint32_t l) { to[l] = from[l]; });
}
inline void write_predicate(Warp& w, const Operand& o, uint32_t lanes, uint32_t bits) {
  uint32_t& to = *w.at<uint32_t>(o);
  to = (to & ~lanes) | (bits & lanes);
}

// `Map` makes an instruction of a function of one lane's operands.
template <auto F>
struct Map;
template <class D, class... S, D (*F)(S...)>
struct Map<F> {
  static Flow execute(Warp& w, const Instruction& i, uint32_t lanes) {
    return apply(w, i, lanes, std::index_sequence_for<S...>());
  }
  template <size_t... N>
  static Flow apply(Warp& w, const Instruction& i, uint32_t lanes, std::index_sequence<N...>) {
    const auto read = [&](const Lanes<S>&... source) {
      if constexpr (std::is_same_v<D, bool>) {
        uint32_t bits = 0;
        each_lane(lanes, [&](uint32_t l) { bits |= static_cast<uint32_t>(F(source[l]...)) << l; });
        write_predicate(w, w.operand(i, 0), lanes, bits);
      } else {
        D out[32];
        each_lane(lanes, [&](uint32_t l) { out[l] = F(source[l]...); });
        write_lanes(w, w.operand(i, 0), lanes, out);
      }
    };
    read(Lanes<S>(w, w.operand(i, 1 + N))...);
    return Flow::kNext;
  }
  static Form form() { return {&execute, {Lanes<D>::kLetter, '=', Lanes<S>::kLetter...}}; }
};
template <auto F>
Form map() {
  return Map<F>::form();
}

}  // namespace softgpu
