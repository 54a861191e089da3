// A worker of the processor makes the lists of a step. Each function does what its namesake in
// codegen/device/lists.cc does.
#include "codegen/device/ragged_row.h"
#include "codegen/processor/worker.h"

namespace mk {

MK_BODY void mkd_load_list(Worker* w, AS1 const MkStep* step, u32 number, u32 list, u32 count) {
  AS1 const u32* from = (AS1 const u32*)step->lists + number * kMaxRequests;
  for (u32 i = 0; i < count; ++i) w->list(list)[i] = from[i];
}

MK_BODY void mkd_set_element(Worker* w, u32 list, u32 index, u32 value) {
  w->list(list)[index] = value;
}

MK_BODY void mkd_sum_list(Worker* w, u32 list, u32 count) {
  AS3 u32* elements = w->list(list);
  u32 sum = 0;
  for (u32 i = 0; i <= count; ++i) {
    const u32 element = i < count ? elements[i] : 0;
    elements[i] = sum;
    sum += element;
  }
}

MK_BODY AS3 u32* mkd_list(Worker* w, u32 list) {
  return w->list(list);
}
MK_BODY u32 mkd_element(Worker* w, u32 list, u32 index) {
  return w->list(list)[index];
}
MK_BODY u32 mkd_row_of(Worker* w, u32 list, u32 count, u32 task) {
  return row_of_task(w->list(list), count, task);
}

MK_BODY void mkd_size_partials(Worker* w, u32 word, u32 q_len, u32 kv_len, u32 requests, u32 max_rows,
                               u32 slots) {
  u32 tokens = 0, longest = 0, kv_chunks = 0;
  for (u32 b = 0; b < requests; ++b) {
    const u32 rows = w->list(q_len)[b], length = w->list(kv_len)[b];
    tokens += rows;
    longest = length > longest ? length : longest;
    kv_chunks += (rows + max_rows - 1) / max_rows * ((length + kKvChunk - 1) / kKvChunk);
  }
  const bool fits = (longest + kKvTile - 1) / kKvTile * tokens <= slots;
  *w->list(word) = fits && kv_chunks < kBusyKvChunks ? kKvTile : kKvChunk;
}

MK_BODY void mkd_cut_rows(Worker* w, u32 before_last, u32 requests, u32 max_rows, u32 q_len, u32 first_row,
                          u32 kv_len, u32 block_request, u32 block_rows, u32 block_first_row,
                          u32 block_kv_len) {
  AS3 const u32* begin = w->list(before_last);
  const u32 not_last = begin[requests];
  for (u32 k = 0; k < not_last + requests; ++k) {
    const u32 b = k < not_last ? row_of_task(begin, requests, k) : k - not_last;
    const u32 row = (k < not_last ? k - begin[b] : begin[b + 1] - begin[b]) * max_rows;
    const u32 left = w->list(q_len)[b] - row, rows = min(left, max_rows);
    w->list(block_request)[k] = b;
    w->list(block_rows)[k] = rows;
    w->list(block_first_row)[k] = w->list(first_row)[b] + row;
    w->list(block_kv_len)[k] = w->list(kv_len)[b] - left + rows;
  }
}

}  // namespace mk
