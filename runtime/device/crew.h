// Crew is the threads that run the workers of a kernel together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace mkrt {

// The calling thread is the first of the crew; the others live as long as the crew. A thread without work
// polls for about 50 us and then sleeps. Each thread is bound to a logical processor of its own if there are
// enough, and sleeps at once otherwise. The calling thread is bound only while it works. Work has the default
// modes of floating point, whatever those of the calling thread are. One thread at a time may call run().
class Crew {
 public:
  // Starts as many of the threads as the system allows.
  explicit Crew(uint32_t threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(threads_.size()) + 1; }  // with the calling thread

  // Tells whether this is the process that made the crew. A child process made by fork() has none of its
  // threads.
  bool here() const;

  // Calls work(i) on thread i, for each, and returns when all calls have returned. Requires here().
  void run(const std::function<void(uint32_t thread)>& work);

 private:
  void serve(uint32_t thread, int processor);

  int process_;                  // that made the crew
  std::vector<int> processors_;  // by thread; empty: threads are not bound
  uint32_t polls_ = 0;           // before a thread sleeps
  std::vector<std::thread> threads_;
  const std::function<void(uint32_t)>* work_ = nullptr;
  std::atomic<uint32_t> turn_{0};     // runs begun
  std::atomic<uint32_t> working_{0};  // threads besides the calling one that have not returned
  std::atomic<bool> over_{false};
};

}  // namespace mkrt
