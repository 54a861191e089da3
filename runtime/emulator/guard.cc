#include "runtime/emulator/guard.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <csignal>
#include <mutex>

#include "runtime/emulator/launch.h"

namespace mkrt::emulator {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MKRT_SANITIZED 1
#endif
#endif

constexpr std::array kSignals = {SIGSEGV, SIGBUS};
constexpr size_t kStackBytes = 64 * 1024;

std::array<struct sigaction, kSignals.size()> before;
thread_local bool guarded = false;
thread_local uintptr_t wild_address = 0;

// Runs on the fiber's own stack, from its top on: nothing of the fiber is needed any more.
void end_with_misuse() {
  record_misuse(fmt::format("touches {:#x}, where there is no memory", wild_address));
  abandon();
}

// Sends the fiber to end_with_misuse() once the handler has returned.
void handle(int number, siginfo_t* info, void* context) {
  const Fiber* fiber = guarded ? running_fiber() : nullptr;
  if (fiber == nullptr) {
    sigaction(number, &before[number == kSignals[0] ? 0 : 1], nullptr);  // the access is made again
    return;
  }
  wild_address = reinterpret_cast<uintptr_t>(info->si_addr);
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto top = reinterpret_cast<uintptr_t>(fiber->context.stack_bottom) + fiber->context.stack_bytes;
  registers[REG_RSP] = static_cast<greg_t>(top / 16 * 16 - sizeof(void*));  // as a call would leave it
  registers[REG_RIP] = reinterpret_cast<greg_t>(&end_with_misuse);
}

// Anew for each launch: the program may have set handlers of its own since.
[[maybe_unused]] void install() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction ours{};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now{};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_sigaction == handle) continue;
    before[i] = now;
    sigaction(kSignals[i], &ours, nullptr);
  }
}

}  // namespace

Guard::Guard() {
#ifndef MKRT_SANITIZED
  install();
  void* mapped = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  stack_ = static_cast<char*>(mapped);
  const stack_t stack{stack_, 0, kStackBytes};
  guarded = sigaltstack(&stack, &before_) == 0;
#endif
}

Guard::~Guard() {
  if (stack_ == nullptr) return;
  if (guarded) sigaltstack(&before_, nullptr);
  guarded = false;
  munmap(stack_, kStackBytes);
}

}  // namespace mkrt::emulator
