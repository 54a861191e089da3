#include "runtime/emulator/guard.h"

#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>

#include "runtime/emulator/launch.h"

namespace mkrt::emulator {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MKRT_SANITIZED 1
#endif
#endif

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGVTALRM, SIGTRAP};
constexpr size_t kHandlerStackBytes = 64 * 1024;
constexpr uint32_t kTicks = 100;              // ticks in a thread's patience
constexpr greg_t kTrapFlag = greg_t{1} << 8;  // of EFLAGS: a trap follows each instruction

std::array<struct sigaction, kSignals.size()> actions_before;

const struct sigaction& action_before(int number) {
  return actions_before[std::ranges::find(kSignals, number) - kSignals.begin()];
}

struct Range {
  uintptr_t begin, end;
};

// Returns the segments of files that this process has loaded. JIT code lies outside of them.
[[maybe_unused]] std::vector<Range> loaded_code() {
  std::vector<Range> ranges;
  const auto add = [](dl_phdr_info* file, size_t, void* to) {
    for (size_t i = 0; i < file->dlpi_phnum; ++i) {
      const auto& segment = file->dlpi_phdr[i];
      const uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
        static_cast<std::vector<Range>*>(to)->push_back({begin, begin + segment.p_memsz});
    }
    return 0;
  };
  dl_iterate_phdr(add, &ranges);
  return ranges;
}

}  // namespace

struct Guard::State {
  char* stack = nullptr;  // of the signal handler, because the fiber's stack may be full
  stack_t stack_before{};
  uintptr_t wild_address = 0;

  uint32_t patience_ms = 0;
  std::vector<Range> loaded;
  std::optional<timer_t> timer;
  // The fiber at the last tick, by its worker and the worker's number of switches, and this thread's
  // processor time at the first tick of that fiber.
  const Worker* worker = nullptr;
  uint64_t steps = 0;
  uint64_t since_ns = 0;

  bool runs(const Fiber* fiber) const {
    return fiber != nullptr && fiber->worker == worker && fiber->worker->steps == steps;
  }
};

namespace {

thread_local Guard::State* guarded = nullptr;

// The two functions run on the fiber's own stack, from its top on: the fiber's frames are not needed any
// more.
void end_at_wild_address() {
  record_misuse(fmt::format("touches {:#x}, where there is no memory", guarded->wild_address));
  abandon();
}
void end_without_wait() {
  record_misuse(fmt::format("waits for nothing during {} ms of the processor", guarded->patience_ms));
  abandon();
}

// Makes the fiber run `end` after the handler returns.
void leave(const Fiber& fiber, ucontext_t* context, void (*end)()) {
  auto& registers = context->uc_mcontext.gregs;
  const auto top = reinterpret_cast<uintptr_t>(fiber.context.stack_bottom) + fiber.context.stack_bytes;
  registers[REG_RSP] = static_cast<greg_t>(top / 16 * 16 - sizeof(void*));  // as a call would leave it
  registers[REG_RIP] = reinterpret_cast<greg_t>(end);
  registers[REG_EFL] &= ~kTrapFlag;
}

bool is_in_kernel(const greg_t* registers) {
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  return std::ranges::none_of(guarded->loaded, [at](const Range& r) { return at >= r.begin && at < r.end; });
}

// Returns whether the next instruction calls the system to change the thread's blocked signals.
bool changes_blocked_signals(const greg_t* registers) {
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  return registers[REG_RAX] == SYS_rt_sigprocmask && code[0] == 0x0f && code[1] == 0x05;  // syscall
}

// Ends the fiber where it runs kernel code, and otherwise lets it run one more instruction. Primitives may
// hold locks, so a fiber is never ended in one. A tick alone seldom finds a loop that calls primitives in its
// own few instructions.
//
// A blocked trap ends the process, so the fiber runs freely while traps are blocked or may become so. The
// next tick traps it again.
void end_or_step(const Fiber& fiber, ucontext_t* context) {
  auto& registers = context->uc_mcontext.gregs;
  if (is_in_kernel(registers)) return leave(fiber, context, end_without_wait);
  if (sigismember(&context->uc_sigmask, SIGTRAP) != 0 || changes_blocked_signals(registers))
    registers[REG_EFL] &= ~kTrapFlag;
  else
    registers[REG_EFL] |= kTrapFlag;
}

void tick(ucontext_t* context) {
  const Fiber* fiber = running_fiber();
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  const uint64_t now_ns =
      static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  if (!guarded->runs(fiber)) guarded->since_ns = now_ns;
  if (fiber == nullptr) return;
  guarded->worker = fiber->worker;
  guarded->steps = fiber->worker->steps;
  if (now_ns - guarded->since_ns >= uint64_t{guarded->patience_ms} * 1'000'000) end_or_step(*fiber, context);
}

// Follows an instruction of a fiber whose patience is over. Another fiber may run now, and needs no more
// traps.
void step(ucontext_t* context) {
  const Fiber* fiber = running_fiber();
  if (guarded->runs(fiber)) return end_or_step(*fiber, context);
  context->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}

// Passes a fault to the earlier handler. The access is made again and reaches that handler.
void pass_fault(int number, const siginfo_t* info) {
  sigaction(number, &action_before(number), nullptr);
  if (info->si_code <= 0) raise(number);  // sent by a program
}

// Passes a timer's signal or a trap that is not the guard's to the earlier handler. The emulator's handler
// stays installed.
void pass_event(int number, siginfo_t* info, void* context) {
  const struct sigaction& other = action_before(number);
  if ((other.sa_flags & SA_SIGINFO) != 0) return other.sa_sigaction(number, info, context);
  if (other.sa_handler == SIG_IGN) return;
  if (other.sa_handler != SIG_DFL) return other.sa_handler(number);
  sigaction(number, &other, nullptr);
  raise(number);
}

void handle(int number, siginfo_t* info, void* context) {
  if (number == SIGVTALRM) {
    if (info->si_code != SI_TIMER || info->si_ptr != &guarded) return pass_event(number, info, context);
    if (guarded != nullptr) tick(static_cast<ucontext_t*>(context));  // null: a late tick of an earlier guard
    return;
  }
  if (number == SIGTRAP) {
    if (info->si_code != TRAP_TRACE || guarded == nullptr) return pass_event(number, info, context);
    return step(static_cast<ucontext_t*>(context));
  }
  const Fiber* fiber = guarded != nullptr ? running_fiber() : nullptr;
  if (fiber == nullptr) return pass_fault(number, info);
  guarded->wild_address = reinterpret_cast<uintptr_t>(info->si_addr);
  leave(*fiber, static_cast<ucontext_t*>(context), end_at_wild_address);
}

// Installs the handlers for each launch anew, because the program may have set its own since the last.
[[maybe_unused]] void install() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction ours{};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaddset(&ours.sa_mask, SIGVTALRM);  // a tick in the handler of a trap would set traps for that handler
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now{};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_sigaction == handle) continue;
    actions_before[i] = now;
    sigaction(kSignals[i], &ours, nullptr);
  }
}

// Starts ticks of this thread's processor time. The load of the machine thus changes nothing.
[[maybe_unused]] std::optional<timer_t> start_ticks(uint32_t patience_ms) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event.sigev_value.sival_ptr = &guarded;
  event._sigev_un._tid = gettid();
  timer_t timer;
  if (patience_ms == 0 || timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) return {};
  const uint64_t ns = uint64_t{patience_ms} * 1'000'000 / kTicks;
  const timespec period{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  const itimerspec ticks{period, period};
  timer_settime(timer, 0, &ticks, nullptr);
  return timer;
}

}  // namespace

Guard::Guard([[maybe_unused]] uint32_t patience_ms) {
#ifndef MKRT_SANITIZED
  void* mapped =
      mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  state_ = std::make_unique<State>();
  state_->stack = static_cast<char*>(mapped);
  state_->patience_ms = patience_ms;
  state_->loaded = loaded_code();
  const stack_t stack{state_->stack, 0, kHandlerStackBytes};
  sigaltstack(&stack, &state_->stack_before);
  guarded = state_.get();
  install();
  state_->timer = start_ticks(patience_ms);
#endif
}

Guard::~Guard() {
  if (!state_) return;
  if (state_->timer) timer_delete(*state_->timer);
  guarded = nullptr;
  sigaltstack(&state_->stack_before, nullptr);
  munmap(state_->stack, kHandlerStackBytes);
}

}  // namespace mkrt::emulator
