// These tests run kernels that touch unmapped memory or never end.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>

#include "runtime/emulator/fiber.h"
#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

// Sanitizers end the process with a report of their own, so these tests need a build without them.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kGuarded = false;
#else
constexpr bool kGuarded = true;
#endif

constexpr uint32_t kThreads = 64;

struct Words {
  volatile uint32_t* wild;
  uint32_t sum;
};

// MadeCode is machine code in executable memory of its own, as a JIT makes it.
class MadeCode {
 public:
  explicit MadeCode(const std::vector<uint8_t>& bytes)
      : at_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(at_ != MAP_FAILED);
    std::memcpy(at_, bytes.data(), bytes.size());
    REQUIRE(mprotect(at_, kBytes, PROT_READ | PROT_EXEC) == 0);
  }
  ~MadeCode() { munmap(at_, kBytes); }
  MadeCode(const MadeCode&) = delete;
  MadeCode& operator=(const MadeCode&) = delete;
  void (*entry() const)() { return reinterpret_cast<void (*)()>(at_); }

 private:
  static constexpr size_t kBytes = 4096;
  void* at_;
};

// Returns the machine code of `for (;;) {}`.
std::vector<uint8_t> bare_loop() {
  return {0xeb, 0xfe};
}
// Returns the machine code of `for (;;) function();`.
template <class Function>
std::vector<uint8_t> calling_loop(Function* function) {
  std::vector<uint8_t> code = {0x53, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0xeb, 0xf2};
  const auto callee = reinterpret_cast<uintptr_t>(function);
  std::memcpy(&code[3], &callee, sizeof callee);
  return code;
}

// The call's time passes in the operating system, so that ticks find the thread behind the system call.
void long_call() {
  std::array<char, 64 * 1024> bytes;
  (void)!getrandom(bytes.data(), bytes.size(), 0);
}

// Spins for more than the patience of these tests, in code of this program.
void spin() {
  const auto now_ms = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
  };
  for (const auto end = now_ms() + 250; now_ms() < end;) continue;
}

// A trap while its signal is blocked ends the process.
void spin_with_signals_blocked() {
  sigset_t all, before;
  sigfillset(&all);
  spin();
  pthread_sigmask(SIG_BLOCK, &all, &before);
  spin();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

struct Calls {
  void (*function)();
  uint32_t returns;
};

// Thread 3 of worker 1 calls the function, while all other threads wait.
void calls(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& arguments = arguments_of<Calls>(session);
  mk_barrier(1, kThreads);
  if (mk_worker() == 1 && mk_thread() == 3) arguments.function(), ++arguments.returns;
  mk_barrier(1, kThreads);
}

volatile sig_atomic_t foreign = 0;

// Thread 3 of worker 1 reads the word at the address, while all other threads wait.
void follows(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& words = arguments_of<Words>(session);
  mk_barrier(1, kThreads);
  if (mk_worker() == 1 && mk_thread() == 3) words.sum += *words.wild;
  mk_barrier(1, kThreads);
}

}  // namespace

TEST_CASE("a wild address ends the launch with its thread and address, and the next launch is right") {
  if (!kGuarded) return;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Words words{static_cast<uint32_t*>(page), 0};
  *static_cast<uint32_t*>(page) = 7;
  CHECK(launch(follows, words, options_for(2, kThreads)).error() == "");
  CHECK(words.sum == 7);
  REQUIRE(munmap(page, 4096) == 0);
  for (const uint32_t os_threads : {1u, 2u}) {
    mkrt::EmulatorOptions options = options_for(2, kThreads);
    options.os_threads = os_threads;
    CHECK(launch(follows, words, options).error() ==
          fmt::format("worker 1 thread 3: touches {}, where there is no memory", page));
  }
  uint32_t there = 5;
  words.wild = &there;
  CHECK(launch(follows, words, options_for(2, kThreads)).error() == "");
  CHECK(words.sum == 12);
}

TEST_CASE("a loop without end ends the launch with its thread, and the next launch is right") {
  if (!kGuarded) return;
  for (const std::vector<uint8_t>& code : {bare_loop(), calling_loop(mk_thread), calling_loop(long_call),
                                           calling_loop(spin_with_signals_blocked)})
    for (const uint32_t os_threads : {1u, 2u}) {
      const MadeCode loop(code);
      Calls arguments{loop.entry(), 0};
      mkrt::EmulatorOptions options = options_for(2, kThreads);
      options.os_threads = os_threads;
      options.patience_ms = 200;
      CHECK(launch(calls, arguments, options).error() ==
            "worker 1 thread 3: waits for nothing during 200 ms of the processor");
    }
  const MadeCode nothing({0xc3});  // 0xc3 is the return instruction
  Calls arguments{nothing.entry(), 0};
  CHECK(launch(calls, arguments, options_for(2, kThreads)).error() == "");
  CHECK(arguments.returns == 1);
}

TEST_CASE(
    "a program's own timer signals and traps reach their handlers while a launch is guarded and after it") {
  if (!kGuarded) return;
  for (const int number : {SIGVTALRM, SIGTRAP}) {
    struct sigaction own{}, before{};
    own.sa_handler = [](int) { foreign = foreign + 1; };
    REQUIRE(sigaction(number, &own, &before) == 0);
    Calls arguments{number == SIGTRAP ? [] { raise(SIGTRAP); } : [] { raise(SIGVTALRM); }, 0};
    foreign = 0;
    CHECK(launch(calls, arguments, options_for(2, kThreads)).error() == "");
    CHECK(foreign == 1);
    raise(number);
    CHECK(foreign == 2);
    REQUIRE(sigaction(number, &before, nullptr) == 0);
  }
}

namespace {

void nothing(const mkrt::MkSession*, const mkrt::MkStep*) {}

// Returns the size of the process's address space, whether in memory or not.
uint64_t address_space_bytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("stacks are given back after a launch, or used again where a pool keeps them") {
  constexpr uint64_t of_a_thread = 256 * 1024;
  mkrt::emulator::StackPool pool;
  for (mkrt::emulator::StackPool* stacks : {static_cast<mkrt::emulator::StackPool*>(nullptr), &pool}) {
    uint32_t arguments = 0;
    const auto launch_each = [&] {
      for (const uint32_t threads : {32u, 64u, 96u}) {
        auto options = options_for(1, threads);
        options.stacks = stacks;
        REQUIRE(launch(nothing, arguments, options).ok());
      }
    };
    launch_each();
    const uint64_t before = address_space_bytes();
    for (int i = 0; i < 4; ++i) launch_each();
    CHECK(address_space_bytes() < before + 32 * of_a_thread);
  }
}
