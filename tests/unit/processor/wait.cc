// These tests run waits, notifications and tickets of the processor's workers on threads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "runtime/device/processor.h"
#include "tests/apart.h"
#include "tests/unit/processor/worker.h"

namespace mk {

extern "C" {
void mkd_begin_thread(Worker*, AS1 const MkSession*, AS1 const MkStep*, AS1 const MkThread*);
u32 mkd_notify_last_and_clear(Worker*, u32 cell, u32 count, u32 expected);
}

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr u32 kCells = 4096;

// Workers are the workers of a launch, which count in its second bank.
struct Workers {
  MkFault fault{};
  std::vector<u32> counters;
  MkSession session{};
  MkStep step{};
  std::vector<std::unique_ptr<TestWorker>> memory;

  explicit Workers(u32 count, std::chrono::nanoseconds timeout = 60s) : counters(2 * kCells) {
    session.fault = reinterpret_cast<uint64_t>(&fault);
    session.counters = reinterpret_cast<uint64_t>(counters.data());
    session.event_cells = kCells;
    session.workers = count;
    step.timeout_ns = static_cast<uint64_t>(timeout.count());
    step.serial = 1;
    for (u32 i = 0; i < count; ++i) {
      memory.push_back(std::make_unique<TestWorker>(4096));
      Worker* const w = &memory[i]->w;
      const MkThread thread{i, mkrt::ns_per_tick(), reinterpret_cast<uintptr_t>(w->shared)};
      mkd_begin_thread(w, global(&session), global(&step), global(&thread));
    }
  }
  Worker* worker(u32 i) { return &memory[i]->w; }
  u32& cell(u32 i) { return counters[kCells + i]; }
  // Runs work(worker) on a thread of each worker.
  template <class Work>
  void run(const Work& work) {
    std::vector<std::jthread> threads;
    for (u32 i = 0; i < memory.size(); ++i) threads.emplace_back([&, i] { work(worker(i), i); });
  }
};

void spin(Clock::duration time) {
  for (const auto begin = Clock::now(); Clock::now() - begin < time;) {
  }
}

TEST_CASE("all that wait for a counter wake when another raises it, soon or late") {
  for (const auto delay : {0us, 10us, 1000us, 20000us}) {
    Workers workers(3);
    constexpr u32 kRounds = 24;
    u32 payload = 0;
    workers.run([&](Worker* w, u32 i) {
      for (u32 round = 0; round < kRounds; ++round) {
        if (i < 2) {
          mkd_wait(w, 3, round + 1);
          CHECK(payload == round + 1);
          mkd_notify(w, 4, 1);
        } else {
          std::this_thread::sleep_for(delay);
          payload = round + 1;
          mkd_notify(w, 3, 1);
          std::this_thread::sleep_for(delay);
          mkd_wait(w, 4, 2 * (round + 1));
        }
      }
    });
    CHECK(workers.fault.state == 0);
    for (u32 i = 0; i < 3; ++i) CHECK(!workers.worker(i)->gave_up());
  }
}

TEST_CASE("no wake is lost over many rounds, whoever comes first") {
  constexpr u32 kRounds = 10000;
  Workers workers(2);
  u32 payload = 0;
  workers.run([&](Worker* w, u32 i) {
    std::mt19937 rng(i);
    for (u32 round = 0; round < kRounds; ++round) {
      const u32 delay = rng() % 8;  // a worker polls for about 50 us before it sleeps
      if (delay < 3) spin(std::chrono::microseconds(rng() % 150));
      if (i == 0) {
        if (payload++ != 2 * round) break;
        mkd_notify(w, 3, 1);
        mkd_wait(w, 4, round + 1);
      } else {
        mkd_wait(w, 3, round + 1);
        if (payload++ != 2 * round + 1) break;
        mkd_notify(w, 4, 1);
      }
    }
  });
  CHECK(payload == 2 * kRounds);
  CHECK(workers.fault.state == 0);
}

TEST_CASE("one notification wakes all that wait, each for cells and counts of its own") {
  Workers workers(5);
  workers.run([&](Worker* w, u32 i) {
    if (i == 0) {
      std::this_thread::sleep_for(5ms);
      for (u32 round = 0; round < 3; ++round) mkd_notify(w, 10, 3);
      return;
    }
    mkd_wait(w, 10 + i % 3, 1 + i % 3);
    CHECK(!w->gave_up());
  });
  for (u32 i = 10; i < 13; ++i) CHECK(workers.cell(i) == 3);
  CHECK(workers.cell(9) == 0);
  CHECK(workers.cell(13) == 0);
  CHECK(workers.counters[10] == 0);  // the other bank
}

TEST_CASE("a wait beyond the timeout is the launch's first fault, and gives up") {
  Workers workers(2, 5ms);
  workers.cell(5) = 1;
  Worker* const w = workers.worker(1);
  mkd_task_begin(w, 7, 11);
  mkd_wait(w, 5, 1);
  CHECK(!w->gave_up());
  const auto begin = Clock::now();
  mkd_wait(w, 5, 3);
  CHECK(Clock::now() - begin >= 4900us);
  CHECK(w->gave_up());
  const auto check_fault = [&] {
    const MkFault& f = workers.fault;
    CHECK(f.state == 2);
    CHECK(f.worker == 1);
    CHECK(f.grid == 7);
    CHECK(f.task == 11);
    CHECK(f.cell == 5);
    CHECK(f.seen == 1);
    CHECK(f.expected == 3);
  };
  check_fault();
  CHECK(!workers.worker(0)->gave_up());
  mkd_task_begin(workers.worker(0), 8, 12);
  mkd_wait(workers.worker(0), 6, 1);
  CHECK(workers.worker(0)->gave_up());
  check_fault();
  Workers next(1);
  CHECK(!next.worker(0)->gave_up());
}

// Stops the process for two seconds, by a child that lets it go on.
void stop() {
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    kill(parent, SIGSTOP);
    sleep(2);
    kill(parent, SIGCONT);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

TEST_CASE("time for which the process is stopped is no part of a wait") {
  const auto wait = [] {
    Workers workers(2, 1s);
    workers.run([&](Worker* w, u32 i) {
      if (i == 1) return mkd_wait(w, 5, 1);
      std::this_thread::sleep_for(20ms);  // worker 1 waits by now
      stop();
      std::this_thread::sleep_for(20ms);
      mkd_notify(w, 5, 1);
    });
    return std::string(workers.worker(1)->gave_up() ? "gave up" : "waited");
  };
  CHECK(mkc::test::run_apart(wait, 10).text == "waited");  // a process of its own, whose stop no shell sees
}

TEST_CASE("a fault of another worker ends a wait that has no timeout") {
  Workers workers(3, 0ns);
  workers.run([&](Worker* w, u32 i) {
    if (i == 0) {
      std::this_thread::sleep_for(5ms);
      __atomic_store_n(&workers.fault.state, 2, __ATOMIC_RELEASE);
      return;
    }
    if (i == 1) mkd_wait(w, 5, 3);
    if (i == 2) CHECK(mkd_next_ready(w, 20, 4, 9, 30, 1) == kLaunchOver);
    CHECK(w->gave_up());
  });
  CHECK(workers.fault.cell == 0);
}

TEST_CASE("a worker looks a number up once it is there, and bounds it") {
  Workers workers(2);
  u32 table = 0;
  workers.run([&](Worker* w, u32 i) {
    if (i == 0) {
      table = 17;
      mkd_notify(w, 8, 1);
      return;
    }
    CHECK(mkd_look_up(w, 2, 8, 1, global(&table), 100) == 17);
    CHECK(mkd_look_up(w, 2, 8, 1, global(&table), 5) == 5);
  });
}

TEST_CASE("each queued ticket is drawn once") {
  constexpr u32 kTickets = 20000;
  Workers workers(4);
  std::vector<u32> drawn(kTickets);
  workers.run([&](Worker* w, u32) {
    for (u32 ticket; (ticket = mkd_next_queued(w, 40)) < kTickets;) ++drawn[ticket];
  });
  CHECK(std::ranges::count(drawn, 1u) == kTickets);
}

TEST_CASE("each task is drawn once, after the cell that it waits for is complete") {
  constexpr u32 kLogged = 300, kProducers = 2, kTicketCell = 0, kFirst = 100, kLog = 1000;
  for (const u32 per_cell : {1u, 3u}) {
    Workers workers(5);
    const u32 tasks = kLogged * per_cell;
    std::vector<u32> payload(kProducers * kLogged), drawn(tasks);
    workers.run([&](Worker* w, u32 i) {
      if (i < kProducers) {
        std::vector<u32> order(kLogged / 3);  // three cells are notified together
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), std::mt19937(i));
        for (const u32 three : order) {
          for (u32 k = 0; k < 3; ++k) payload[i * kLogged + 3 * three + k] = 3 * three + k + 1;
          mkd_notify_logged(w, kFirst + 3 * three, 3, kProducers, kLog, 3 * three);
          if (three % 16 == 0) std::this_thread::sleep_for(200us);
        }
        return;
      }
      for (u32 task; (task = mkd_next_ready(w, kTicketCell, tasks, 9, kLog, per_cell)) != kLaunchOver;) {
        for (u32 p = 0; p < kProducers; ++p)
          if (payload[p * kLogged + task / per_cell] != task / per_cell + 1) drawn[task] = ~0u / 2;
        ++drawn[task];
      }
    });
    CHECK(std::ranges::count(drawn, 1u) == tasks);
    CHECK(workers.cell(kLog) == kLogged);
    CHECK(workers.fault.state == 0);
  }
}

TEST_CASE("exactly one worker completes a cell, and sees what all have written") {
  constexpr u32 kWorkers = 4, kRounds = 1500, kTogether = 5;
  for (const bool clears : {false, true}) {
    Workers workers(kWorkers);
    std::barrier<> turn(kWorkers);
    std::vector<u32> written(kWorkers), completed(kRounds * kTogether);
    workers.run([&](Worker* w, u32 i) {
      for (u32 round = 0; round < kRounds; ++round) {
        written[i] = round;
        const u32 ones = clears ? mkd_notify_last_and_clear(w, 50, kTogether, kWorkers)
                                : mkd_notify_last(w, 50, kTogether, kWorkers * (round + 1));
        for (u32 k = 0; k < kTogether; ++k) {
          if ((ones >> k & 1) == 0) continue;
          ++completed[round * kTogether + k];
          if (std::ranges::count(written, round) != kWorkers) completed[round * kTogether + k] = ~0u / 2;
        }
        if (ones >> kTogether != 0) completed[0] = ~0u / 2;
        turn.arrive_and_wait();
      }
    });
    CHECK(std::ranges::count(completed, 1u) == kRounds * kTogether);
    for (u32 k = 0; k < kTogether; ++k) CHECK(workers.cell(50 + k) == (clears ? 0 : kRounds * kWorkers));
  }
}

TEST_CASE("ones are counted from a bit on, up to the first zero") {
  CHECK(mkd_ones_from(0b1011'0111, 0) == 3);
  CHECK(mkd_ones_from(0b1011'0111, 1) == 2);
  CHECK(mkd_ones_from(0b1011'0111, 3) == 0);
  CHECK(mkd_ones_from(~0u, 0) == 32);
  CHECK(mkd_ones_from(~0u, 31) == 1);
}

}  // namespace
}  // namespace mk
