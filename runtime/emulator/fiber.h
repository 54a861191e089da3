// A fiber has a context of execution and a stack, and switches to other fibers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt::emulator {

// Context is where a suspended execution continues. The fields beyond `sp` describe its stack to the
// sanitizers.
struct Context {
  void* sp = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

// Stacks holds the stacks of `count` fibers, each with a guard page below it. The object's destructor frees
// the stacks.
class Stacks {
 public:
  // Maps the stacks. Errors: no memory.
  static Result<Stacks> map(uint32_t count);
  Stacks(Stacks&& other) noexcept;
  ~Stacks();
  Stacks& operator=(Stacks&& other) noexcept;

  // Returns a context that starts `entry` on stack `index` at the first switch to it. `entry` must not
  // return.
  Context prepare(uint32_t index, void (*entry)());
  uint32_t count() const;
  bool contains(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(base_) < bytes_;
  }

 private:
  Stacks(char* base, size_t bytes) : base_(base), bytes_(bytes) {}
  char* base_;
  size_t bytes_;
};

// StackPool keeps stacks of one launch for the next. Mapping, guarding and touching stacks costs more than a
// short launch. One launch at a time may use a pool.
class StackPool {
 public:
  Result<Stacks> take(uint32_t count);
  void put(Stacks stacks) { spare_.push_back(std::move(stacks)); }

 private:
  std::vector<Stacks> spare_;
};

// Returns the context of the calling OS thread, for a switch away from it.
Context thread_context();

// Saves the running execution in `from` and continues `to`. Returns when a switch to `from` occurs. `last`
// says that the running execution never continues.
void switch_context(Context& from, Context& to, bool last = false);

// Must be the first call of an `entry`.
void finish_first_switch();

// Tells the thread sanitizer that the context no longer exists.
void discard_context(Context& context);

}  // namespace mkrt::emulator
