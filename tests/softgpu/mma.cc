// A warp multiplies matrices (PTX ISA, "mma").
#include "tests/softgpu/forms.h"
#include "tests/softgpu/matrix.h"

namespace softgpu {
namespace {

template <bool Bf16>
Flow mma(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  if (lanes != ~0u) m.fault(&w, &i, "only lanes " + hex(lanes) + " multiply");
  const uint32_t* words[4];
  for (uint32_t n = 0; n < 4; ++n) words[n] = w.at<uint32_t>(w.operand(i, 4 + n));
  alignas(64) float a[16][16], b[8][16];
  take_a<Bf16>(words, a);
  // B has 16 rows and 8 columns, and is stored here by columns. Lane 4g + t holds rows 2t, 2t + 1, 2t + 8
  // and 2t + 9 of column g.
  for (uint32_t n = 0; n < 2; ++n) {
    const uint32_t* p = w.at<uint32_t>(w.operand(i, 8 + n));
    for (uint32_t l = 0; l < 32; ++l) {
      b[l / 4][l % 4 * 2 + 8 * n] = half_value<Bf16>(p[l]);
      b[l / 4][l % 4 * 2 + 8 * n + 1] = half_value<Bf16>(p[l] >> 16);
    }
  }
  float out[4][32];
  for (uint32_t n = 0; n < 4; ++n) {
    const float* c = w.at<float>(w.operand(i, 10 + n));
    for (uint32_t l = 0; l < 32; ++l)
      out[n][l] = sum_up(m.settings.exact_sums, c[l], a[l / 4 + 8 * (n / 2)], b[l % 4 * 2 + n % 2]);
  }
  for (uint32_t n = 0; n < 4; ++n) write_lanes(w, w.operand(i, n), lanes, out[n]);
  ++m.statistics.products;
  return Flow::kNext;
}

// Multiplies 16 x 32 by 32 x 8 elements of E4M3 (PTX ISA, "Matrix Fragments for mma.m16n8k32"). A register of
// lane 4g + t holds four elements of a row of A, or of a column of B. The rows are g and g + 8 of A, and the
// column is g of B. Elements start at 4t, and then at 4t + 16.
Flow mma_e4m3(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  if (lanes != ~0u) m.fault(&w, &i, "only lanes " + hex(lanes) + " multiply");
  alignas(64) float a[16][32], b[8][32];
  for (uint32_t n = 0; n < 4; ++n) take_codes(w.at<uint32_t>(w.operand(i, 4 + n)), a + n % 2 * 8, n / 2 * 16);
  for (uint32_t n = 0; n < 2; ++n) take_codes(w.at<uint32_t>(w.operand(i, 8 + n)), b, n * 16);
  float out[4][32];
  for (uint32_t n = 0; n < 4; ++n) {
    const float* c = w.at<float>(w.operand(i, 10 + n));
    for (uint32_t l = 0; l < 32; ++l)
      out[n][l] = sum_up<32>(m.settings.exact_sums, c[l], a[l / 4 + 8 * (n / 2)], b[l % 4 * 2 + n % 2]);
  }
  for (uint32_t n = 0; n < 4; ++n) write_lanes(w, w.operand(i, n), lanes, out[n]);
  ++m.statistics.products;
  return Flow::kNext;
}

}  // namespace

void add_mma_forms(Forms& f) {
  f["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = {mma<true>, "wwww=wwwwwwwwww", true};
  f["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] = {mma<false>, "wwww=wwwwwwwwww", true};
  f["mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"] = {mma_e4m3, "wwww=wwwwwwwwww", true};
}

}  // namespace softgpu
