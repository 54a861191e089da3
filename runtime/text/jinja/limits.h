// Templates have limits. A template comes with a checkpoint, so nobody vouches that it ends or stays small.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mkrt::jinja {

inline constexpr size_t kMaxSourceBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxSyntaxDepth = 200;  // levels of nested statements and expressions
inline constexpr uint32_t kMaxCallDepth = 700;    // levels of evaluation, values and iterators
inline constexpr size_t kMaxOutputBytes = size_t{64} << 20;
inline constexpr size_t kMaxMemoryBytes = size_t{512} << 20;  // all values that one rendering makes
inline constexpr uint64_t kMaxSteps = 100'000'000;            // as docs/chat-templates.md counts them
inline constexpr int64_t kMaxRange = 100'000;                 // items of a range, as in Jinja2's sandbox

}  // namespace mkrt::jinja
