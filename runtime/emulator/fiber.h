// Contexts of execution with stacks of their own, and the switch between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt::emulator {

// Where a suspended execution goes on. The fields beyond `sp` tell the sanitizers about its stack.
struct Context {
  void* sp = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

// Stacks of `count` fibers, each with a guard page below it. Freed with the object.
class Stacks {
 public:
  static Result<Stacks> map(uint32_t count);
  Stacks(Stacks&& other) noexcept;
  ~Stacks();
  Stacks& operator=(Stacks&& other) noexcept;

  // A context that starts `entry` on stack `index` at the first switch to it. `entry` must not return.
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

// Stacks that one launch leaves for the next: mapping, guarding and touching them costs more than a short
// launch. For one launch at a time.
class StackPool {
 public:
  Result<Stacks> take(uint32_t count);
  void put(Stacks stacks) { spare_.push_back(std::move(stacks)); }

 private:
  std::vector<Stacks> spare_;
};

// The context of the calling OS thread, to be switched away from.
Context thread_context();

// Saves the running execution in `from` and goes on with `to`; returns when something switches to `from`.
// `last`: the running execution never goes on.
void switch_context(Context& from, Context& to, bool last = false);

// To be called first by an `entry`.
void finish_first_switch();

// Tells the thread sanitizer that the context is gone.
void discard_context(Context& context);

}  // namespace mkrt::emulator
