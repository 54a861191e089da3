// Work on large memory is done by several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace mkrt {

// Calls work(i) for each i below `count`, on as many threads as the process may use. Threads take the next i
// when they are done with one. Returns when all are done.
void for_each_at_once(size_t count, const std::function<void(size_t)>& work);

}  // namespace mkrt
