// Shared memory holds the lists of the step, the lists of its row blocks, and the first tasks of each row of
// ragged grids. A list is named by its first word.
#include "codegen/device/lists.h"

#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {

// mkd_load_list() brings a list of the step, of `count` elements, into shared memory. Consumer threads call
// it, and a consumer barrier must follow.
MK_BODY void mkd_load_list(Worker* w, AS1 const MkStep* step, u32 number, u32 list, u32 count) {
  AS1 const u32* from = (AS1 const u32*)step->lists + number * kMaxRequests;
  for (u32 i = w->thread; i < count; i += kConsumerThreads) w->list(list)[i] = from[i];
}

MK_BODY void mkd_set_element(Worker* w, u32 list, u32 index, u32 value) {
  w->list(list)[index] = value;
}

// mkd_sum_list() replaces element i by the sum of the elements before it, for i up to `count`. `count` is at
// most the number of consumer threads, which call it.
MK_BODY void mkd_sum_list(Worker* w, u32 list, u32 count) {
  AS3 u32* elements = w->list(list);
  consumer_barrier();
  u32 sum = 0;
  if (w->thread < count)
    for (u32 i = 0; i <= w->thread; ++i) sum += elements[i];
  consumer_barrier();
  if (w->thread < count) elements[w->thread + 1] = sum;
  if (w->thread == 0) elements[0] = 0;
  consumer_barrier();
}

MK_BODY AS3 u32* mkd_list(Worker* w, u32 list) {
  return w->list(list);
}
MK_BODY u32 mkd_element(Worker* w, u32 list, u32 index) {
  return w->list(list)[index];
}

// mkd_row_of() is row_of_task() for a list.
MK_BODY u32 mkd_row_of(Worker* w, u32 list, u32 count, u32 task) {
  return row_of_task(w->list(list), count, task);
}

// mkd_size_partials() chooses the positions of a partial (ir/values.h) from lengths that have been loaded.
// Consumer threads call it, and a consumer barrier must follow.
MK_BODY void mkd_size_partials(Worker* w, u32 word, u32 q_len, u32 kv_len, u32 requests, u32 max_rows,
                               u32 slots) {
  if (w->thread != 0) return;
  *w->list(word) = positions_of_partials(w->list(q_len), w->list(kv_len), requests, max_rows, slots);
}

// mkd_cut_rows() makes the lists of row blocks (ir/values.h) of up to `max_rows` rows. Each consumer thread
// makes one block. A consumer barrier ends this function.
MK_BODY void mkd_cut_rows(Worker* w, u32 before_last, u32 requests, u32 max_rows, u32 q_len, u32 first_row,
                          u32 kv_len, u32 block_request, u32 block_rows, u32 block_first_row,
                          u32 block_kv_len) {
  const RowBlocks blocks = row_blocks(*w, before_last, requests, max_rows, q_len, first_row, kv_len,
                                      block_request, block_rows, block_first_row, block_kv_len);
  if (w->thread < blocks.count()) blocks.make(w->thread);
  consumer_barrier();
}

// mkd_lists_made() tells the loader that it may read the lists up to the end of its step. Consumer threads
// call it after the barrier that ends the lists.
MK_BODY void mkd_lists_made(Worker* w) {
  if (w->thread == 0) mk_mbar_arrive(w->listed());
}
// mkd_await_lists() waits in the loader for the lists that are the kernel's `number`-th. The result is false
// after a fault.
MK_BODY bool mkd_await_lists(Worker* w, u32 number) {
  return wait_free(*w, w->listed(), number % 2);
}

}  // namespace mk
