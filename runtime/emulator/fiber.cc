#include "runtime/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MKRT_ASAN 1
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_feature(thread_sanitizer)
#define MKRT_TSAN 1
#include <sanitizer/tsan_interface.h>
#endif
#endif

#ifndef __x86_64__
#error "the emulator switches fibers on x86-64 only"
#endif

// void mkrt_switch_stack(void** save, void* to) pushes the callee-saved registers of the System V ABI and
// swaps stacks. Floating-point control words are not saved, because no kernel changes them.
extern "C" void mkrt_switch_stack(void** save, void* to);
asm(R"(
  .text
  .globl mkrt_switch_stack
  .hidden mkrt_switch_stack
  .type mkrt_switch_stack, @function
mkrt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size mkrt_switch_stack, . - mkrt_switch_stack
)");

namespace mkrt::emulator {
namespace {

// A thread touches little of its stack, but HostOptions::quick and sanitizers make frames of more than 64 KB.
constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kPitch = kStackBytes + kGuardBytes;
// The tops of stacks are spread over this many bytes, so that they do not share cache sets.
constexpr size_t kColourBytes = 8192;
constexpr size_t kColourStep = 448;
constexpr int kSavedRegisters = 6;

}  // namespace

Result<Stacks> Stacks::map(uint32_t count) {
  const size_t bytes = kPitch * count;
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Error{"cannot map " + std::to_string(count) + " emulator stacks: " + std::strerror(errno)};
  Stacks stacks(static_cast<char*>(base), bytes);
  for (uint32_t i = 0; i < count; ++i) {
    if (mprotect(stacks.base_ + i * kPitch, kGuardBytes, PROT_NONE) != 0)
      return Error{"cannot guard " + std::to_string(count) + " emulator stacks: " + std::strerror(errno)};
  }
  return stacks;
}

Stacks::Stacks(Stacks&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Stacks& Stacks::operator=(Stacks&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Stacks::~Stacks() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

uint32_t Stacks::count() const {
  return static_cast<uint32_t>(bytes_ / kPitch);
}

Context Stacks::prepare(uint32_t index, void (*entry)()) {
  char* bottom = base_ + index * kPitch + kGuardBytes;
#ifdef MKRT_ASAN
  __asan_unpoison_memory_region(bottom, kStackBytes);  // frames that an abandoned fiber left
#endif
  char* top = bottom + kStackBytes - 64 - (index * kColourStep) % kColourBytes;
  auto** sp = reinterpret_cast<void**>(top);
  *--sp = nullptr;  // the entry's return address, which also aligns its frame
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--sp = nullptr;
  Context context;
  context.sp = sp;
  context.stack_bottom = bottom;
  context.stack_bytes = kStackBytes;
#ifdef MKRT_TSAN
  context.tsan_fiber = __tsan_create_fiber(0);
#endif
  return context;
}

Result<Stacks> StackPool::take(uint32_t count) {
  for (Stacks& stacks : spare_) {
    if (stacks.count() != count) continue;
    std::swap(stacks, spare_.back());
    Stacks taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
  }
  auto mapped = Stacks::map(count);
  if (mapped.ok() || spare_.empty()) return mapped;
  spare_.clear();  // stacks of other counts take the memory, or the maps of it
  return Stacks::map(count);
}

#ifdef MKRT_ASAN
namespace {

struct ThreadStack {
  void* bottom = nullptr;
  size_t bytes = 0;
};

// Returns the stack of the calling thread. That of the first thread comes from /proc/self/maps, which has a
// line for each stack of a fiber and takes long to read.
ThreadStack ask_thread_stack() {
  ThreadStack stack;
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack.bottom, &stack.bytes);
  pthread_attr_destroy(&attributes);
  return stack;
}

}  // namespace
#endif

Context thread_context() {
  Context context;
#ifdef MKRT_ASAN
  static thread_local const ThreadStack stack = ask_thread_stack();
  context.stack_bottom = stack.bottom;
  context.stack_bytes = stack.bytes;
#endif
#ifdef MKRT_TSAN
  context.tsan_fiber = __tsan_get_current_fiber();
#endif
  return context;
}

void switch_context(Context& from, Context& to, [[maybe_unused]] bool last) {
#ifdef MKRT_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
#ifdef MKRT_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  mkrt_switch_stack(&from.sp, to.sp);
#ifdef MKRT_ASAN
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void finish_first_switch() {
#ifdef MKRT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void discard_context([[maybe_unused]] Context& context) {
#ifdef MKRT_TSAN
  if (context.tsan_fiber != nullptr) __tsan_destroy_fiber(std::exchange(context.tsan_fiber, nullptr));
#endif
}

}  // namespace mkrt::emulator
