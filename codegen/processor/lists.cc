// A worker of the processor makes the lists of a step. Each function does what its namesake in
// codegen/device/lists.cc does.
#include "codegen/device/lists.h"

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
  *w->list(word) = positions_of_partials(w->list(q_len), w->list(kv_len), requests, max_rows, slots);
}

MK_BODY void mkd_cut_rows(Worker* w, u32 before_last, u32 requests, u32 max_rows, u32 q_len, u32 first_row,
                          u32 kv_len, u32 block_request, u32 block_rows, u32 block_first_row,
                          u32 block_kv_len) {
  const RowBlocks blocks = row_blocks(*w, before_last, requests, max_rows, q_len, first_row, kv_len,
                                      block_request, block_rows, block_first_row, block_kv_len);
  for (u32 k = 0; k < blocks.count(); ++k) blocks.make(k);
}

}  // namespace mk
