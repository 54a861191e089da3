// Jobs run on threads of their own, beside what the caller does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace mkc {

class Jobs {
 public:
  // Begins the jobs in their order, on as many threads, or on those that there are.
  Jobs(std::vector<std::function<void()>> jobs, uint32_t threads);
  ~Jobs() { join(); }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // Leaves out the jobs that have not begun.
  void stop() { next_ = jobs_.size(); }
  // Does jobs with the threads, and waits for those that have begun.
  void join();

 private:
  void work();

  const std::vector<std::function<void()>> jobs_;
  std::atomic<size_t> next_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace mkc
