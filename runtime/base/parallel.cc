#include "runtime/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace mkrt {

void for_each_at_once(size_t count, uint32_t max_threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto serve = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  };
  std::vector<std::jthread> threads;
  const size_t wanted = std::min<size_t>(count, max_threads);
  for (bool more = true; more && threads.size() + 1 < wanted;) {
    try {
      threads.emplace_back(serve);
    } catch (const std::system_error&) {
      more = false;  // the threads that there are do all the work
    }
  }
  serve();
}

}  // namespace mkrt
