#include "tests/softgpu/wgmma.h"

#include "tests/softgpu/forms.h"
#include "tests/softgpu/matrix.h"
#include "tests/softgpu/race.h"

namespace softgpu {
namespace {

constexpr uint32_t kSums = 32, kA = 2 * kSums, kB = kA + 4, kScaleD = kB + 1;  // operand numbers of m64n64k16

// A matrix descriptor says where a matrix lies in shared memory (PTX ISA, "Matrix Descriptor Format").
struct Descriptor {
  uint32_t start, stride;
  // Returns the offset of byte `at` of column `col`. Eight columns of 128 bytes are an atom. An atom's
  // swizzle xors bits 4 to 6 of the address with bits 7 to 9.
  uint32_t offset(uint32_t col, uint32_t at) const {
    const uint32_t address = start + col / 8 * stride + col % 8 * 128 + at;
    return (address ^ (address >> 7 & 7) << 4) - static_cast<uint32_t>(kSharedBase);
  }
};

Descriptor read_descriptor(Warp& w, const Instruction& i) {
  Machine& m = w.machine();
  const uint64_t* p = w.at<uint64_t>(w.operand(i, kB));
  for (uint32_t l = 1; l < 32; ++l)
    if (p[l] != p[0]) m.fault(&w, &i, "descriptors of lanes differ");
  const uint64_t bits = p[0];
  if (bits >> 62 != 1) m.fault(&w, &i, "a descriptor without 128-byte swizzle, which is not modelled");
  if (bits >> 49 & 7) m.fault(&w, &i, "a descriptor with a base offset, which is not modelled");
  if (bits & (3ull << 14 | 3ull << 30 | 7ull << 46 | 0x3ffull << 52))
    m.fault(&w, &i, "reserved bits of the descriptor");
  const Descriptor d{static_cast<uint32_t>(bits & 0x3fff) << 4, static_cast<uint32_t>(bits >> 32 & 0x3fff)
                                                                    << 4};
  if (d.start / 128 % 8 != 0) m.fault(&w, &i, "base offset 0, but the matrix does not begin at 1024 bytes");
  const uint64_t end = d.start + 7ull * d.stride + 1024;
  if (d.start < kSharedBase || end - kSharedBase > w.cta->shared.size())
    m.fault(&w, &i, "the descriptor's matrix is outside of shared memory");
  return d;
}

// Halves are 16 elements of bf16 or f16 of a step.
template <bool Bf16>
struct Halves {
  static constexpr uint32_t count = 16;
  static void take(const uint32_t* const* words, float (*a)[count]) { take_a<Bf16>(words, a); }
  static float element(const uint8_t* bytes, uint32_t k) {
    uint16_t h;
    std::memcpy(&h, bytes + 2 * (k % 8), 2);
    return half_value<Bf16>(h);
  }
};
// Codes are 32 elements of E4M3 of a step.
struct Codes {
  static constexpr uint32_t count = 32;
  static void take(const uint32_t* const* words, float (*a)[count]) {
    for (uint32_t n = 0; n < 4; ++n) take_codes(words[n], a + n % 2 * 8, n / 2 * 16);
  }
  static float element(const uint8_t* bytes, uint32_t k) { return of_e4m3(bytes[k % 16]); }
};

template <class Type>
void multiply(Warp& w, const Instruction& i) {
  constexpr uint32_t of_chunk = Type::count / 2;  // elements of 16 bytes
  const Descriptor d = read_descriptor(w, i);
  const uint32_t* words[4];
  for (uint32_t n = 0; n < 4; ++n) words[n] = w.at<uint32_t>(w.operand(i, kA + n));
  alignas(64) float a[16][Type::count], b[64][Type::count];
  Type::take(words, a);
  for (uint32_t col = 0; col < 64; ++col)
    for (uint32_t k = 0; k < Type::count; ++k)
      b[col][k] = Type::element(w.cta->shared.data() + d.offset(col, k / of_chunk * 16), k);
  const bool adds = *w.at<uint32_t>(w.operand(i, kScaleD)) != 0;
  for (uint32_t n = 0; n < kSums; ++n) {
    float* sum = w.at<float>(w.operand(i, n));
    for (uint32_t l = 0; l < 32; ++l)
      sum[l] = sum_up<Type::count>(w.machine().settings.exact_sums, adds ? sum[l] : 0,
                                   a[l / 4 + 8 * (n / 2 % 2)], b[8 * (n / 4) + l % 4 * 2 + n % 2]);
  }
}

void mark_busy(Warp& w, const Instruction& i, int by) {
  for (uint32_t n = 0; n < kSums; ++n) w.busy[w.operand(i, n).reg] += by;
  for (uint32_t n = kA; n < kB; ++n) w.busy[w.operand(i, n).reg] += by;
}

void touch_matrix(Warp& w, const Instruction& i, bool done) {
  Race* race = w.cta->grid->race.get();
  if (!race) return;
  const Descriptor d = read_descriptor(w, i);
  for (uint32_t col = 0; col < 64; ++col)
    for (uint32_t at = 0; at < 32; at += 16) race->load_async(w, i, d.offset(col, at), 16, done);
}

template <class Type>
Flow product(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  if (lanes != ~0u) m.fault(&w, &i, "only lanes " + hex(lanes) + " multiply");
  if (w.cta->grid->launch.threads / 128 <= w.index / 4)
    m.fault(&w, &i, "the warp belongs to no whole warpgroup");
  for (uint32_t n = 0; n < kB; n = n + 1 == kSums ? kA : n + 1)
    if (const Operand& o = w.operand(i, n); !o.constant && w.last_access[o.reg] > w.fenced_at)
      m.fault(&w, &i, "operand " + std::to_string(n) + " was accessed since the last wgmma.fence");
  const auto number = [&](uint32_t n) { return *w.at<uint32_t>(w.operand(i, kScaleD + n)); };
  const bool transposed = Type::count == 16 && number(3) != 0;  // only types of 2 bytes may be
  if (number(1) != 1 || number(2) != 1 || transposed)
    m.fault(&w, &i, "negated or transposed operands, which are not modelled");
  const Descriptor d = read_descriptor(w, i);
  ++w.products_begun;
  w.products_hash = (w.products_hash * 31 + d.start) * 31 + d.stride;
  ++m.statistics.wgmma;
  touch_matrix(w, i, false);
  mark_busy(w, i, 1);
  w.products.push_back({&i, 0, false, multiply<Type>});
  return Flow::kYield;
}

Flow fence_registers(Warp& w, const Instruction&, uint32_t) {
  w.fenced_at = w.instructions;
  return Flow::kNext;
}

Flow commit(Warp& w, const Instruction&, uint32_t) {
  ++w.groups;
  for (Product& p : w.products)
    if (p.group == 0) p.group = w.groups;
  return Flow::kYield;
}

// Completes all groups but the last ones, of which it leaves as many as the operand says.
Flow wait(Warp& w, const Instruction& i, uint32_t) {
  const uint32_t left = *w.at<uint32_t>(w.operand(i, 0));
  while (!w.products.empty()) {
    const Product& p = w.products.front();
    if (p.group == 0 || p.group + left > w.groups) break;
    if (!p.done) complete_product(w);
    touch_matrix(w, *p.instruction, true);
    mark_busy(w, *p.instruction, -1);
    w.products.erase(w.products.begin());
  }
  return Flow::kNext;
}

}  // namespace

void complete_product(Warp& w) {
  for (Product& p : w.products) {
    if (p.done) continue;
    p.multiply(w, *p.instruction);
    p.done = true;
    return;
  }
}

void check_busy(Warp& w, const Instruction& i) {
  if (i.name->starts_with("wgmma")) return;
  for (uint32_t n = 0; n < uint32_t{i.results} + i.sources; ++n)
    if (w.busy[w.operand(i, n).reg])
      w.machine().fault(&w, &i,
                        "operand " + std::to_string(n) + " belongs to a wgmma that nobody waited for");
}

void add_wgmma_forms(Forms& f) {
  const std::string operands = std::string(kSums, 'w') + "+=wwwwdpnn";
  f["wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"] = {product<Halves<true>>, operands + 'n', true};
  f["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"] = {product<Halves<false>>, operands + 'n', true};
  f["wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"] = {product<Codes>, operands, true};
  f["wgmma.fence.sync.aligned"] = {fence_registers, "=", true};
  f["wgmma.commit_group.sync.aligned"] = {commit, "=", true};
  f["wgmma.wait_group.sync.aligned"] = {wait, "=n", true};
}

}  // namespace softgpu
