#include "runtime/device/crew.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <x86intrin.h>

#include <system_error>

#include "runtime/device/container_limits.h"
#include "runtime/device/processor.h"

namespace mkrt {
namespace {

constexpr uint32_t kPolls = 2000;  // about 50 us

// Returns once the value differs from `old`.
uint32_t await_change(const std::atomic<uint32_t>& value, uint32_t old, uint32_t polls) {
  for (uint32_t i = 0; i < polls; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

void bind(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

constexpr uint32_t kDefaultFloats = 0x1f80;  // MXCSR: nearest even, subnormal numbers as they are, no traps

// Gives the calling thread the default modes of floating point while it works. Its maker may have others.
class DefaultFloats {
 public:
  DefaultFloats() { _mm_setcsr(kDefaultFloats); }
  ~DefaultFloats() { _mm_setcsr(before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  uint32_t before_ = _mm_getcsr();
};

// Binds the calling thread while it works.
class Bound {
 public:
  explicit Bound(const std::vector<int>& processors) {
    if (processors.empty()) return;
    bound_ = pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) == 0;
    if (bound_) bind(processors[0]);
  }
  ~Bound() {
    if (bound_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

}  // namespace

Crew::Crew(uint32_t threads) : process_(getpid()), processors_(usable_processors()) {
  const bool enough = processors_.size() >= threads;
  polls_ = enough ? kPolls : 1;
  // Containers share processors by time: threads bound to the first processors of several would meet there.
  const bool shared = has_quota(static_cast<uint32_t>(processors_.size()), container_limits());
  if (!enough || shared || threads == 1) processors_.clear();
  threads_.reserve(threads);
  try {
    for (uint32_t i = 1; i < threads; ++i)
      threads_.emplace_back([this, i] { serve(i, processors_.empty() ? -1 : processors_[i]); });
  } catch (const std::system_error&) {
    return;  // size() says how far it came
  }
}

Crew::~Crew() {
  over_ = true;
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Crew::here() const {
  return getpid() == process_;
}

void Crew::run(const std::function<void(uint32_t)>& work) {
  const Bound bound(processors_);
  const DefaultFloats floats;
  work_ = &work;
  working_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  work(0);
  for (uint32_t left = working_.load(std::memory_order_acquire); left != 0;)
    left = await_change(working_, left, polls_);
}

void Crew::serve(uint32_t thread, int processor) {
  if (processor >= 0) bind(processor);
  const DefaultFloats floats;
  for (uint32_t turn = 0;;) {
    turn = await_change(turn_, turn, polls_);
    if (over_) return;
    (*work_)(thread);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_all();
  }
}

}  // namespace mkrt
