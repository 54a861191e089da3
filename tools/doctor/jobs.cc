#include "tools/doctor/jobs.h"

#include <system_error>

namespace mkc {

Jobs::Jobs(std::vector<std::function<void()>> jobs, uint32_t threads) : jobs_(std::move(jobs)) {
  threads_.reserve(threads);
  try {
    for (uint32_t i = 0; i < threads && i < jobs_.size(); ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    return;  // join() does what is left
  }
}

void Jobs::work() {
  for (size_t job; (job = next_++) < jobs_.size();) jobs_[job]();
}

void Jobs::join() {
  work();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace mkc
