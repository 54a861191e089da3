// Symbols that describe a step have these names. The compiler and the manifest share them.
#pragma once

namespace mkrt {

// Numbers of the step.
inline constexpr const char* kTokensSymbol = "T";    // rows of all requests
inline constexpr const char* kRequestsSymbol = "B";  // requests
inline constexpr const char* kLogitRowsSymbol =
    "R";  // rows that need logits: all rows, or each request's last one

// Lists with an entry for each request.
inline constexpr const char* kQLenSymbol = "q_len";          // rows of the request
inline constexpr const char* kKvLenSymbol = "kv_len";        // positions in its cache, including its rows
inline constexpr const char* kFirstRowSymbol = "first_row";  // first row of the request

}  // namespace mkrt
