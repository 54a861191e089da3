// Work on large memory is done by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace mkrt {

// Calls work(i) for each i below `count`, on so many threads at most. Threads take the next i when they are
// done with one. Returns when all are done.
void for_each_at_once(size_t count, uint32_t max_threads, const std::function<void(size_t)>& work);

}  // namespace mkrt
