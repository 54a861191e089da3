#include "tests/attack/schedules/verdict.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "ir/verify.h"
#include "scheduler/prove.h"

namespace mkc::attack {
namespace {

constexpr unsigned kSeconds = 120;

}  // namespace

bool is_accepted(const Schedule& schedule, std::string* why) {
  if (const std::vector<Error> errors = verify(schedule); !errors.empty()) {
    if (why) *why = errors.front().message;
    return false;
  }
  const Result<ProofReport> report = prove(schedule);
  if (!report.ok() && why) *why = report.error().message;
  return report.ok();
}

Verdict verdict_apart(const Schedule& schedule) {
  constexpr int kRefusedCode = 3, kAcceptedCode = 4;
  const pid_t child = fork();
  if (child == 0) {
    for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) signal(crash, SIG_DFL);
    alarm(kSeconds);
    _exit(is_accepted(schedule) ? kAcceptedCode : kRefusedCode);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return Verdict::kCrashed;
  return WEXITSTATUS(status) == kRefusedCode    ? Verdict::kRefused
         : WEXITSTATUS(status) == kAcceptedCode ? Verdict::kAccepted
                                                : Verdict::kCrashed;
}

}  // namespace mkc::attack
