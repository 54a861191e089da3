#include "tools/doctor/jobs.h"

namespace mkc {

Jobs::Jobs(std::vector<std::function<void()>> jobs, uint32_t threads) : jobs_(std::move(jobs)) {
  for (uint32_t i = 0; i < threads && i < jobs_.size(); ++i)
    threads_.emplace_back([this] {
      for (size_t job; (job = next_++) < jobs_.size();) jobs_[job]();
    });
}

void Jobs::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace mkc
