#include "tests/apart.h"

#include <fmt/format.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "ir/diag.h"

namespace mkc::test {
namespace {

constexpr uint32_t kBusy = 20;  // factor by which other programs may slow the work down

[[noreturn]] void run_child(const std::function<std::string()>& work, uint32_t seconds, int out) {
  // doctest's handlers would allocate.
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(crash, SIG_DFL);
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(seconds * kBusy);
  const std::string text = work();
  _exit(write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string read_all(int from) {
  std::string text;
  char block[4096];
  for (ssize_t n; (n = read(from, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  return text;
}

}  // namespace

ApartResult run_apart(const std::function<std::string()>& work, uint32_t seconds) {
  int ends[2];
  if (pipe(ends) != 0) MKC_BUG("no pipe");
  const pid_t child = fork();
  if (child < 0) MKC_BUG("no process");
  if (child == 0) run_child(work, seconds, ends[1]);
  close(ends[1]);
  std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) MKC_BUG("no child");
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const bool late = number == SIGPROF || number == SIGALRM;
    return {late ? ApartResult::End::kLate : ApartResult::End::kCrashed, fmt::format("signal {}", number)};
  }
  if (WEXITSTATUS(status) != 0)
    return {ApartResult::End::kCrashed, fmt::format("exit status {}", WEXITSTATUS(status))};
  return {ApartResult::End::kReturned, std::move(text)};
}

}  // namespace mkc::test
