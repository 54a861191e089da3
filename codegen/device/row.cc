// Row grids run the norms, rotations and elementwise steps that no other body takes in.
#include "codegen/device/norm_outputs.h"
#include "codegen/device/row_step.h"

namespace mk {

namespace {

MK_INLINE f32 stepped(RowStep step, f32 v, f32 operand, f32 value) {
  return is_activation(step) ? activated((Activation)step, v) : arithmetic_step(step, v, operand, value);
}

// worker_sum() adds the threads' values. `sums` has an element for each warp. All threads get the sum.
MK_INLINE f32 worker_sum(const Worker& w, AS3 f32* sums, f32 v) {
  const f32 sum = mk_warp_sum(v);
  if (w.lane() == 0) sums[w.warp()] = sum;
  consumer_barrier();
  f32 all = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i) all += sums[i];
  return all;
}

// Norm is what a norm does to the elements of one row or head: (v - mean) * scale * weight + bias.
struct Norm {
  f32 mean = 0, scale = 1;

  MK_INLINE f32 of(const RowArgs& a, f32 v, u32 i) const {
    if (!a.norm_cols) return v;
    v = (v - mean) * scale * a.norm[i];
    return a.norm_bias ? v + a.norm_bias[i] : v;
  }
};

// norm_of() takes the statistics of a row of `count` elements. Each thread adds every `stride`-th element
// from `begin` on. `sum` adds over the threads; its first argument tells the two sums apart.
template <class Sum>
MK_INLINE Norm norm_of(const RowArgs& a, AS1 const f32* x, u32 begin, u32 stride, u32 count, const Sum& sum) {
  Norm norm;
  if (a.centered) {
    f32 v = 0;
    for (u32 i = begin; i < count; i += stride) v += x[i];
    norm.mean = sum(0, v) / (f32)count;
  }
  f32 squares = 0;
  for (u32 i = begin; i < count; i += stride)
    squares = __builtin_fmaf(x[i] - norm.mean, x[i] - norm.mean, squares);
  norm.scale = mk_rsqrt(sum(1, squares) / (f32)count + a.eps);
  return norm;
}

// RowTask stores the elements of a row that a thread computes.
struct RowTask {
  const RowArgs& a;
  u32 row;
  f32 sum_squares = 0;

  // operand() is element `at` of the operand of step i, or 0 where the step has none.
  MK_INLINE f32 operand(u32 i, u64 at) const {
    if (!has_operand(a.step[i])) return 0;
    u32 number = 0;
    MK_UNROLL
    for (u32 before = 0; before < kMaxRowSteps; ++before) number += before < i && has_operand(a.step[before]);
    return number == 0 ? a.operand[0][at] : a.operand[1][at];
  }

  MK_INLINE f32 store(u32 col, f32 v) {
    const u64 at = (u64)row * a.cols + col;
    MK_UNROLL
    for (u32 i = 0; i < kMaxRowSteps; ++i) v = stepped(a.step[i], v, operand(i, at), a.value[i]);
    store_out(a.out, at, v, a.out_bf16);
    sum_squares = store_x_bf16(a.norm_outputs, row * a.cols, col, v, sum_squares);
    return v;
  }

  // store_best() is called by whole warps. Each 16 lanes have the columns of one strip; `there` is false in
  // lanes behind the last column.
  MK_INLINE void store_best(u32 col, bool there, f32 v) const {
    u32 best = there ? col : ~0u;
    MK_UNROLL
    for (u32 mask = kStripRows / 2; mask > 0; mask /= 2) {
      const f32 other = mk_shuffle_xor(v, mask);
      const u32 at = __builtin_bit_cast(u32, mk_shuffle_xor(__builtin_bit_cast(f32, best), mask));
      const bool greater = at != ~0u && (best == ~0u || plain_logit(other) > plain_logit(v) ||
                                         (plain_logit(other) == plain_logit(v) && at < best));
      if (greater) v = other, best = at;
    }
    if (!there || col % kStripRows != 0) return;
    const u64 strip = (u64)row * ((a.cols + kStripRows - 1) / kStripRows) + col / kStripRows;
    a.best_value[strip] = v;
    a.best_index[strip] = best;
  }
};

// by_row() computes the columns from `begin` to `end`. A norm takes the whole row, which is one task's.
MK_INLINE void by_row(const Worker& w, RowTask& task, AS1 const f32* x, u32 begin, u32 end) {
  const RowArgs& a = task.a;
  Norm norm;
  if (a.norm_cols) {
    AS3 f32* const sums = (AS3 f32*)w.scratch() + kConsumerWarps;  // store_sum_squares() has those before
    norm = norm_of(a, x, w.thread, kConsumerThreads, a.cols,
                   [&](u32 which, f32 v) { return worker_sum(w, sums + which * kConsumerWarps, v); });
  }
  for (u32 first = begin; first < end; first += kConsumerThreads) {
    const u32 col = first + w.thread;
    f32 v = 0;
    if (col < end) v = task.store(col, norm.of(a, x[col], col));
    if (a.best_value) task.store_best(col, col < end, v);
  }
}

// by_heads() computes whole heads from `begin` to `end`, each by one warp.
MK_INLINE void by_heads(const Worker& w, RowTask& task, AS1 const f32* x, u32 begin, u32 end) {
  const RowArgs& a = task.a;
  const u32 size = a.norm_cols ? a.norm_cols : a.head_dim, half = size / 2;
  for (u32 head = begin + w.warp() * size; head < end; head += kConsumerWarps * size) {
    AS1 const f32* const of_head = x + head;
    Norm norm;
    if (a.norm_cols)
      norm = norm_of(a, of_head, w.lane(), kWarpLanes, size, [&](u32, f32 v) { return mk_warp_sum(v); });
    if (!a.head_dim) {
      for (u32 i = w.lane(); i < size; i += kWarpLanes) task.store(head + i, norm.of(a, of_head[i], i));
      continue;
    }
    AS1 const f32* const rope = a.rope + (u64)a.positions[task.row] * size;
    for (u32 i = w.lane(); i < half; i += kWarpLanes) {
      const f32 low = norm.of(a, of_head[i], i), high = norm.of(a, of_head[half + i], half + i);
      task.store(head + i, low * rope[i] - high * rope[half + i]);
      task.store(head + half + i, high * rope[i] + low * rope[half + i]);
    }
  }
}

}  // namespace

MK_BODY void mkb_row(Worker* w, const RowArgs* a, u32 row, u32 block) {
  RowTask task{*a, row};
  u32 from = row;
  if (a->gather_rows && a->rows != a->x_rows)
    from = min(a->first_row[row] + a->q_len[row] - 1, a->x_rows - 1);
  AS1 const f32* const x = a->x + (u64)from * a->cols;
  const u32 begin = block * a->block_cols, end = min(a->cols, begin + a->block_cols);
  if (a->head_dim || (a->norm_cols && a->norm_cols != a->cols))
    by_heads(*w, task, x, begin, end);
  else
    by_row(*w, task, x, begin, end);
  store_sum_squares(*w, a->norm_outputs, row * ((a->cols + a->block_cols - 1) / a->block_cols) + block,
                    task.sum_squares);
}

}  // namespace mk
