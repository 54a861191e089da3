// A worker waits for a counter by polls at first, and then sleeps until a notification.
//
// A worker that sleeps says so in `sleepers`. Whoever changes a counter looks there behind its change, and
// wakes those that sleep on the counter. Both sides order their two accesses, so that no wake is lost. A
// sleep ends after kSleepNs all the same, to look at faults and the clock.
#pragma once

#include "codegen/processor/worker.h"

namespace mk {

constexpr u32 kPolls = 4096;  // polls before a worker sleeps: about 50 us, 40 cycles each
constexpr u64 kSleepNs = 1'000'000;
// A longer time between two looks at the clock counts as kMostNsBetweenLooks.
constexpr u64 kMostNsBetweenLooks = 100'000'000;

// sleepers counts the workers of this kernel that sleep, in all sessions.
inline u32 sleepers = 0;

// system_call() is a Linux system call for x86-64.
MK_INLINE long system_call(long number, long a, long b, long c, long d) {
  long result;
  register long r10 asm("r10") = d;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return result;
}

constexpr long kFutex = 202, kFutexWaitPrivate = 128, kFutexWakePrivate = 129;

// sleep_on() sleeps until a change of the counter is told, unless it differs from `seen` by now.
MK_INLINE void sleep_on(const u32* counter, u32 seen) {
  struct {
    long seconds, ns;
  } limit = {0, (long)kSleepNs};
  __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
  system_call(kFutex, (long)counter, kFutexWaitPrivate, (long)seen, (long)&limit);
  __atomic_fetch_sub(&sleepers, 1, __ATOMIC_SEQ_CST);
}
// wake() follows an atomic read-modify-write of the counter, which orders it before the look at `sleepers`.
MK_INLINE void wake(const u32* counter) {
  if (__builtin_expect(__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST) != 0, 0))
    system_call(kFutex, (long)counter, kFutexWakePrivate, 0x7fffffff, 0);
}

// await() waits until the counter is at least `expected`. await() falls through after a fault, or beyond the
// timeout, which is a fault. `cell` names the counter in faults. A process that is stopped for long does not
// wait meanwhile.
MK_INLINE void await(const Worker& w, AS1 const u32* counter, u32 cell, u32 expected, u64 timeout_ns) {
  const u32* const at = plain(counter);
  u64 looked = 0, waited = 0;
  for (;;) {
    u32 seen = 0;
    MK_ROLLED
    for (u32 i = 0; i < kPolls; ++i) {
      seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);
      if (seen >= expected) return;
      __builtin_ia32_pause();
    }
    const u64 now = time_ns(w);
    if (looked != 0) waited += now - looked < kMostNsBetweenLooks ? now - looked : kMostNsBetweenLooks;
    looked = now;
    const bool late = timeout_ns != 0 && waited > timeout_ns;
    if (late) record_fault(w, thread_of(w).worker, cell, seen, expected);
    if (late || faulted(w)) {
      w.give_up();
      return;
    }
    sleep_on(at, seen);
  }
}
MK_INLINE void await(const Worker& w, u32 cell, u32 expected) {
  await(w, w.counters + cell, cell, expected, w.timeout_ns());
}

// add_to() adds n to a counter, wakes those that sleep on it, and returns the value before. The addition
// publishes all that the worker has written, and acquires what others published there.
MK_INLINE u32 add_to(AS1 u32* counter, u32 n) {
  const u32 before = __atomic_fetch_add(plain(counter), n, __ATOMIC_SEQ_CST);
  wake(plain(counter));
  return before;
}

}  // namespace mk
