// This header has the arithmetic of the lists of a step (codegen/device/lists.cc). Lists lie in shared
// memory.
#pragma once

#include "codegen/device/attend_args.h"
#include "codegen/device/worker.h"

namespace mk {

// row_of_task() is the row of a ragged grid's task. begin[i] is the first task of row i, and begin[count] the
// number of all tasks.
MK_INLINE u32 row_of_task(AS3 const u32* begin, u32 count, u32 task) {
  u32 row = 0;
  for (u32 left = count; left > 1;) {  // the row is one of the `left` rows from `row` on
    const u32 half = left / 2;
    if (begin[row + half] <= task) row += half;
    left -= half;
  }
  return row;
}

// Returns the positions of a partial of attention (ir/values.h), for requests with these lengths.
MK_INLINE u32 positions_of_partials(AS3 const u32* q_len, AS3 const u32* kv_len, u32 requests, u32 max_rows,
                                    u32 slots) {
  u32 tokens = 0, longest = 0, kv_chunks = 0;
  for (u32 b = 0; b < requests; ++b) {
    const u32 rows = q_len[b], length = kv_len[b];
    tokens += rows;
    longest = length > longest ? length : longest;
    kv_chunks += (rows + max_rows - 1) / max_rows * ((length + kKvChunk - 1) / kKvChunk);
  }
  const bool fits = (longest + kKvTile - 1) / kKvTile * tokens <= slots;
  return fits && kv_chunks < kBusyKvChunks ? kKvTile : kKvChunk;
}

// RowBlocks makes the lists of row blocks (ir/values.h) of up to `max_rows` rows from the lists of requests.
// Element b of `before_last` is where the blocks of request b begin among all blocks that are no request's
// last.
struct RowBlocks {
  AS3 const u32 *before_last, *q_len, *first_row, *kv_len;
  u32 requests, max_rows;
  AS3 u32 *block_request, *block_rows, *block_first_row, *block_kv_len;

  MK_INLINE u32 not_last() const { return before_last[requests]; }
  MK_INLINE u32 count() const { return not_last() + requests; }
  MK_INLINE void make(u32 block) const {
    const u32 b = block < not_last() ? row_of_task(before_last, requests, block) : block - not_last();
    const u32 index = block < not_last() ? block - before_last[b] : before_last[b + 1] - before_last[b];
    const u32 row = index * max_rows, left = q_len[b] - row, rows = min(left, max_rows);
    block_request[block] = b;
    block_rows[block] = rows;
    block_first_row[block] = first_row[b] + row;
    block_kv_len[block] = kv_len[b] - left + rows;
  }
};

// Returns the row blocks of lists that are named by their first words.
MK_INLINE RowBlocks row_blocks(const Worker& w, u32 before_last, u32 requests, u32 max_rows, u32 q_len,
                               u32 first_row, u32 kv_len, u32 block_request, u32 block_rows,
                               u32 block_first_row, u32 block_kv_len) {
  return {w.list(before_last),   w.list(q_len),      w.list(first_row),
          w.list(kv_len),        requests,           max_rows,
          w.list(block_request), w.list(block_rows), w.list(block_first_row),
          w.list(block_kv_len)};
}

}  // namespace mk
