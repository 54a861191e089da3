#include "tools/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "runtime/base/temporaries.h"

namespace mkc {
namespace {

constexpr int kSignalled = 128;  // shells give this, plus the signal, where one ends a process

const char* g_program = "";  // a handler reaches nothing but globals

void say(const char* text) {
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
}

// Ends the process when it reads behind the end of a mapped file, which another process has shortened.
void end_by_fault(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) return end_by_signal(signal);
  mkrt::remove_temporaries_at_end();
  say(g_program);
  say(": error: a file was shortened while ");
  say(g_program);
  say(" read it, or its disk failed\n");
  _exit(1);
}

}  // namespace

void handle_signals(const char* program) {
  g_program = program;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM})
    if (std::signal(signal, end_by_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  struct sigaction fault{};
  fault.sa_sigaction = end_by_fault;
  fault.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &fault, nullptr);
}

void end_by_signal(int signal) {
  mkrt::remove_temporaries_at_end();
  std::signal(signal, SIG_DFL);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, signal);
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  std::raise(signal);
  _exit(kSignalled + signal);  // the first process of a container ignores signals without a handler
}

void reserve_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDONLY);  // open() takes the lowest free number
}

}  // namespace mkc
