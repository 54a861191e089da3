#include "tests/attack/tamper/judge.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace mkc::attack {
namespace {

constexpr size_t kBatch = 256;  // mutants of one process
constexpr std::chrono::seconds kPatience{300};
constexpr size_t kMaxBad = 20;

// The child writes the board, and its parent reads it.
struct Board {
  volatile Verdict verdicts[kBatch];
  volatile size_t done;
};

Board* make_board() {
  void* at = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<Board*>(at);
}

// Returns the verdict on a child that ended, or that was ended as it made no more progress.
Verdict wait_for(pid_t child, const Board& board) {
  using Clock = std::chrono::steady_clock;
  size_t seen = board.done;
  for (Clock::time_point since = Clock::now();; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Verdict::kNone : Verdict::kCrash;
    if (board.done != seen) {
      seen = board.done;
      since = Clock::now();
    }
    if (Clock::now() - since < kPatience) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return Verdict::kHang;
  }
}

}  // namespace

bool kept(const Edit& edit, Verdict verdict) {
  if (verdict == Verdict::kCrash || verdict == Verdict::kHang || verdict == Verdict::kNone) return false;
  return edit.sealed_anew() || verdict == Verdict::kRefused;
}

void judge(const Target& target, const Edit& edit, size_t first, size_t end, size_t step, Tally& tally) {
  Board* board = make_board();
  for (size_t begin = first; begin < end;) {
    const size_t count = std::min(kBatch, (end - begin + step - 1) / step);
    board->done = 0;
    for (size_t i = 0; i < count; ++i) board->verdicts[i] = Verdict::kNone;
    const pid_t child = fork();
    if (child == 0) {
      for (size_t i = 0; i < count; ++i) {
        const Parts parts = edit.make(begin + i * step);
        board->verdicts[i] = load_and_run(target, parts.manifest, parts.plan, edit.sealed_anew());
        board->done = i + 1;
      }
      _exit(0);
    }
    const Verdict ended = wait_for(child, *board);
    const size_t done = board->done;
    if (ended != Verdict::kNone && done < count) board->verdicts[done] = ended;
    const size_t judged = ended == Verdict::kNone ? count : std::min(count, done + 1);
    for (size_t i = 0; i < judged; ++i) {
      const Verdict verdict = board->verdicts[i];
      ++tally.tried;
      ++tally.verdicts[static_cast<size_t>(verdict)];
      if (!kept(edit, verdict) && tally.bad.size() < kMaxBad)
        tally.bad.push_back(fmt::format("{}: {}: {}: {}", target.name, edit.name(),
                                        edit.describe(begin + i * step),
                                        kVerdicts[static_cast<size_t>(verdict)]));
    }
    begin += judged * step;
  }
  munmap(board, sizeof(Board));
}

}  // namespace mkc::attack
