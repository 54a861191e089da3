// One step's work on the host's side: rows of several requests and where their keys and values lie.
#pragma once

#include <cstdint>
#include <span>

namespace mkrt {

// Pages of the cache by request, in the order of their positions: request b's are index[begin[b]] to
// index[begin[b + 1] - 1] (CSR). A dense table [requests, width] is the same with begin[b] = b * width.
struct PageTable {
  std::span<const int32_t> begin;  // [requests + 1]
  std::span<const int32_t> index;
};

// Requests one after the other: rows [row_begin[b], row_begin[b + 1]) are b's next tokens, at the positions
// up to kv_len[b] - 1. A decode has one row, a chunk of a prompt several.
struct Batch {
  std::span<const int32_t> tokens;     // [rows]
  std::span<const int32_t> row_begin;  // [requests + 1], from 0
  std::span<const int32_t> kv_len;     // [requests], positions in the cache with this step's
  PageTable pages;
};

}  // namespace mkrt
