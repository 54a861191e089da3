// Work runs on a thread of its own, beside what the caller does.
#pragma once

#include <future>
#include <system_error>
#include <type_traits>

namespace mkc {

// Starts work on a thread. Without a free thread, the work is done where its result is asked for.
template <class Work>
std::future<std::invoke_result_t<Work&>> start_beside(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

}  // namespace mkc
