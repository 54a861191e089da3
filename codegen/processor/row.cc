// These tasks compute elements of a row, 16 columns at a time: row grids, the embedding table, and the sum of
// a token's experts. Row grids have the norms, rotations and elementwise steps that no other body takes in.
#include "codegen/processor/activation.h"

// The templates of row_step.h find the vector forms of activation.h.
#include "codegen/device/row_step.h"
#include "codegen/processor/layout.h"
#include "codegen/processor/worker.h"

namespace mk {

namespace {

// RowOut stores elements of a row, with the norm outputs that its task leaves.
struct RowOut {
  const NormOutputs& to;
  AS1 f32* out;
  u64 row;  // the first element of the row
  bool out_bf16 = false;
  f32x16 squares = all_lanes(0);

  // store() stores `count` columns from `col` on.
  MK_INLINE void store(u32 col, f32x16 v, u32 count) {
    if (out_bf16)
      store_part((uint16_t*)plain(out) + row + col, bf16_lanes(v), count);
    else
      store_part(plain(out) + row + col, v, count);
    if (!to.norm) return;
    const f32x16 scaled = v * load_part<f32x16>(plain(to.norm) + col, count);
    store_part((uint16_t*)plain(to.x_bf16) + row + col, bf16_lanes(scaled), count);
    const f32x16 there = first_lanes(v, count);
    squares = fma(there, there, squares);
  }
  // store_sum_squares() ends a task. `part` is the task's element of the sums.
  MK_INLINE void store_sum_squares(u64 part) const {
    if (to.norm) to.sum_squares[part] = sum_of(squares);
  }
};

MK_INLINE f32x16 stepped(RowStep step, f32x16 v, f32x16 operand, f32 value) {
  return is_activation(step) ? activated_lanes((Activation)step, v)
                             : arithmetic_step(step, v, operand, value);
}

// Norm is what a norm does to the elements of one row or head: (v - mean) * scale * weight + bias.
struct Norm {
  f32 mean = 0, scale = 1;

  // of() takes `count` elements of x, from element i of the row or head on.
  MK_INLINE f32x16 of(const RowArgs& a, const f32* x, u32 i, u32 count) const {
    f32x16 v = load_part<f32x16>(x + i, count);
    if (!a.norm_cols) return v;
    v = (v - mean) * scale * load_part<f32x16>(plain(a.norm) + i, count);
    return a.norm_bias ? v + load_part<f32x16>(plain(a.norm_bias) + i, count) : v;
  }
};

// norm_of() takes the statistics of a row or head of norm_cols elements.
MK_INLINE Norm norm_of(const RowArgs& a, const f32* x) {
  Norm norm;
  const u32 cols = a.norm_cols;
  if (cols == 0) return norm;
  if (a.centered) {
    f32x16 sum = all_lanes(0);
    for (u32 i = 0; i < cols; i += kVector) sum += load_part<f32x16>(x + i, min(kVector, cols - i));
    norm.mean = sum_of(sum) / (f32)cols;
  }
  f32x16 squares = all_lanes(0);
  for (u32 i = 0; i < cols; i += kVector) {
    const u32 count = min(kVector, cols - i);
    const f32x16 v = first_lanes(load_part<f32x16>(x + i, count) - norm.mean, count);
    squares = fma(v, v, squares);
  }
  norm.scale = 1.0f / __builtin_sqrtf(sum_of(squares) / (f32)cols + a.eps);
  return norm;
}

// RowTask computes columns of one row.
struct RowTask {
  const RowArgs& a;
  const f32* x;  // the row that is read
  u32 row;       // the row that is written
  RowOut out;

  // operand() is the operand of step i, or 0 where the step has none.
  MK_INLINE f32x16 operand(u32 i, u64 at, u32 count) const {
    if (!has_operand(a.step[i])) return all_lanes(0);
    u32 number = 0;
    MK_UNROLL
    for (u32 before = 0; before < kMaxRowSteps; ++before) number += before < i && has_operand(a.step[before]);
    return load_part<f32x16>(plain(number == 0 ? a.operand[0] : a.operand[1]) + at, count);
  }

  MK_INLINE f32x16 store(u32 col, f32x16 v, u32 count) {
    MK_UNROLL
    for (u32 i = 0; i < kMaxRowSteps; ++i)
      v = stepped(a.step[i], v, operand(i, out.row + col, count), a.value[i]);
    out.store(col, v, count);
    return v;
  }

  // store_best() takes the columns of one strip.
  MK_INLINE void store_best(u32 col, f32x16 v, u32 count) const {
    f32 values[kVector];
    mk::store(values, v);
    u32 best = 0;
    for (u32 i = 1; i < count; ++i)
      if (plain_logit(values[i]) > plain_logit(values[best])) best = i;
    const u64 strip = (u64)row * ((a.cols + kStripRows - 1) / kStripRows) + col / kStripRows;
    plain(a.best_value)[strip] = values[best];
    plain(a.best_index)[strip] = col + best;
  }

  // by_row() computes the columns from `begin` to `end`. A norm takes the whole row, which is one task's.
  MK_INLINE void by_row(u32 begin, u32 end) {
    const Norm norm = norm_of(a, x);
    for (u32 col = begin; col < end; col += kVector) {
      const u32 count = min(kVector, end - col);
      const f32x16 v = store(col, norm.of(a, x, col, count), count);
      if (a.best_value) store_best(col, v, count);
    }
  }

  // by_heads() computes whole heads from `begin` to `end`.
  MK_INLINE void by_heads(u32 begin, u32 end) {
    const u32 size = a.norm_cols ? a.norm_cols : a.head_dim, half = size / 2;
    const f32* const rope = a.head_dim ? plain(a.rope) + (u64)plain(a.positions)[row] * size : nullptr;
    for (u32 head = begin; head < end; head += size) {
      const f32* const of_head = x + head;
      const Norm norm = norm_of(a, of_head);
      if (!a.head_dim) {
        for (u32 i = 0; i < size; i += kVector) {
          const u32 count = min(kVector, size - i);
          store(head + i, norm.of(a, of_head, i, count), count);
        }
        continue;
      }
      for (u32 i = 0; i < half; i += kVector) {
        const u32 count = min(kVector, half - i);
        const f32x16 low = norm.of(a, of_head, i, count), high = norm.of(a, of_head, half + i, count);
        const f32x16 cosine = load_part<f32x16>(rope + i, count),
                     sine = load_part<f32x16>(rope + half + i, count);
        store(head + i, low * cosine - high * sine, count);
        store(head + half + i, high * cosine + low * sine, count);
      }
    }
  }
};

template <class W>
MK_INLINE void embed(const EmbedArgs& a, u32 token) {
  const PackedShape shape = packed_shape(a.vocab, a.cols, W::type);
  const u32 row = plain(a.tokens)[token];
  RowOut out{a.norm_outputs, a.out, (u64)token * a.cols};
  for (u32 col = 0; col < a.cols; col += kVector) {
    const u32 count = min(kVector, a.cols - col);
    f32 values[kVector] = {};
    for (u32 i = 0; i < count; ++i)
      values[i] = W::X::load(a.table + element_offset(shape, W::type, row, col + i));
    out.store(col, load<f32x16>(values), count);
  }
  out.store_sum_squares(token);
}

}  // namespace

MK_BODY void mkb_row(Worker*, const RowArgs* a, u32 row, u32 block) {
  u32 from = row;
  if (a->gather_rows && a->rows != a->x_rows)
    from = min(plain(a->first_row)[row] + plain(a->q_len)[row] - 1, a->x_rows - 1);
  RowTask task{*a, plain(a->x) + (u64)from * a->cols, row,
               RowOut{a->norm_outputs, a->out, (u64)row * a->cols, a->out_bf16 != 0}};
  const u32 begin = block * a->block_cols, end = min(a->cols, begin + a->block_cols);
  if (a->head_dim || (a->norm_cols && a->norm_cols != a->cols))
    task.by_heads(begin, end);
  else
    task.by_row(begin, end);
  task.out.store_sum_squares((u64)row * ((a->cols + a->block_cols - 1) / a->block_cols) + block);
}

MK_BODY void mkb_embed_f32(Worker*, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kF32>>(*a, token);
}
MK_BODY void mkb_embed_bf16(Worker*, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kBf16>>(*a, token);
}
MK_BODY void mkb_embed_f16(Worker*, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kF16>>(*a, token);
}

MK_BODY void mkb_expert_sum(Worker*, const ExpertSumArgs* a, u32 token, u32 block) {
  const f32* row[kMaxTopK];
  f32 routing_weight[kMaxTopK];
  for (u32 i = 0; i < a->top_k; ++i) {
    const u32 choice = token * a->top_k + i;
    row[i] = plain(a->x) + (u64)min(plain(a->row)[choice], a->rows - 1) * a->cols;
    routing_weight[i] = plain(a->routing_weight)[choice];
  }
  RowOut out{a->norm_outputs, a->out, (u64)token * a->cols};
  const u32 end = min(a->cols, (block + 1) * kExpertSumColumns);
  for (u32 col = block * kExpertSumColumns; col < end; col += kVector) {
    const u32 count = min(kVector, end - col);
    f32x16 sum = all_lanes(0);
    for (u32 i = 0; i < a->top_k; ++i)
      sum = fma(all_lanes(routing_weight[i]), load_part<f32x16>(row[i] + col, count), sum);
    if (a->residual) sum = load_part<f32x16>(plain(a->residual) + out.row + col, count) + sum;
    out.store(col, sum, count);
  }
  out.store_sum_squares((u64)token * ((a->cols + kExpertSumColumns - 1) / kExpertSumColumns) + block);
}

}  // namespace mk
