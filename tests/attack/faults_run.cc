#include "tests/attack/faults_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mkc::attack {
namespace {

constexpr uint32_t kBusy = 20;  // by how much others may slow a case down

// What an error says, and who says so.
constexpr std::array<std::pair<const char*, const char*>, 5> kReporters = {{
    {" races\n", "race"},
    {" of the launch ended with ", "counts"},
    {"deadlock:\n", "deadlock"},
    {" beyond ", "deadline"},
    {"worker ", "misuse"},
}};

std::string reporter_of(const std::string& error) {
  for (const auto& [text, reporter] : kReporters)
    if (error.find(text) != std::string::npos) return reporter;
  return {};
}

// What comes after an error: the session has ended, and another one on the same device is right.
FaultVerdict go_on(const Fixture& fixture, mkrt::Device& device, mkrt::Session& session,
                   std::string& detail) {
  const mkrt::Status again = feed_one(session);
  if (again.ok() || again.error().message.find("cannot go on") == std::string::npos)
    return FaultVerdict::kGoesOn;
  auto next = open_session(fixture, device);
  if (!next.ok()) {
    detail += "; then: " + next.error().message;
    return FaultVerdict::kSpoiltNext;
  }
  const Outcome outcome = feed_all(fixture, next.value());
  if (outcome.error.empty() && outcome.same_bits(fixture.clean)) return FaultVerdict::kReported;
  detail += "; then: " + (outcome.error.empty() ? "other bits" : outcome.error);
  return FaultVerdict::kSpoiltNext;
}

FaultResult run_here(const Fixture& fixture, const FaultCase& c) {
  std::vector<mkrt::Disturbed> launches;
  mkrt::EmulatorDeviceOptions options;
  options.seed = c.device_seed;
  options.race = c.race;
  options.disturbance = c.disturbance;
  options.disturbed = &launches;
  const auto device = open_device(fixture, options);
  auto session = open_session(fixture, *device);
  if (!session.ok()) return {FaultVerdict::kVague, {}, session.error().message};
  const Outcome outcome = feed_all(fixture, session.value());
  const FaultEnd end = fault_kinds()[c.kind].end;
  FaultResult result{FaultVerdict::kReported, reporter_of(outcome.error), outcome.error};
  if (outcome.error.empty()) {
    const bool happened = std::ranges::any_of(launches, &mkrt::Disturbed::happened);
    const FaultVerdict seen = end == FaultEnd::kError ? FaultVerdict::kUnseen : FaultVerdict::kSame,
                       without = happened ? seen : FaultVerdict::kMissed;
    result.verdict = outcome.same_bits(fixture.clean) ? without : FaultVerdict::kWrong;
    return result;
  }
  result.verdict = go_on(fixture, *device, session.value(), result.detail);
  if (result.how.empty()) result.verdict = FaultVerdict::kVague;
  if (end == FaultEnd::kSameBits) result.verdict = FaultVerdict::kRefused;
  return result;
}

[[noreturn]] void run_child(const Fixture& fixture, const FaultCase& c, uint32_t seconds, int out) {
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(crash, SIG_DFL);
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);  // time of the processor, which a busy machine does not change
  alarm(seconds * kBusy);                   // one that only waits
  const FaultResult r = run_here(fixture, c);
  const std::string text = fmt::format("{}\n{}\n{}", static_cast<int>(r.verdict), r.how, r.detail);
  _exit(write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string read_all(int from) {
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(from, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  return text;
}

}  // namespace

const char* verdict_name(FaultVerdict verdict) {
  switch (verdict) {
    case FaultVerdict::kSame:
      return "same bits";
    case FaultVerdict::kReported:
      return "reported";
    case FaultVerdict::kMissed:
      return "did not happen";
    case FaultVerdict::kWrong:
      return "wrong bits";
    case FaultVerdict::kUnseen:
      return "not seen";
    case FaultVerdict::kRefused:
      return "error of a harmless one";
    case FaultVerdict::kVague:
      return "error without a name";
    case FaultVerdict::kGoesOn:
      return "session goes on";
    case FaultVerdict::kSpoiltNext:
      return "next session is wrong";
    case FaultVerdict::kCrashed:
      return "crash";
    case FaultVerdict::kTimedOut:
      return "hang";
  }
  MKC_BUG("unknown verdict");
}

bool is_finding(FaultVerdict verdict) {
  return verdict >= FaultVerdict::kWrong;
}

FaultResult run_fault(const Fixture& fixture, const FaultCase& c, uint32_t seconds) {
  int ends[2];
  if (pipe(ends) != 0) MKC_BUG("no pipe");
  const pid_t child = fork();
  if (child < 0) MKC_BUG("no process");
  if (child == 0) run_child(fixture, c, seconds, ends[1]);
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool late = signal == SIGPROF || signal == SIGALRM;
    return {late ? FaultVerdict::kTimedOut : FaultVerdict::kCrashed, {}, fmt::format("signal {}", signal)};
  }
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  if (WEXITSTATUS(status) != 0 || second == std::string::npos)
    return {FaultVerdict::kCrashed, {}, fmt::format("exit status {}", WEXITSTATUS(status))};
  return {static_cast<FaultVerdict>(std::stoi(text)), text.substr(first + 1, second - first - 1),
          text.substr(second + 1)};
}

}  // namespace mkc::attack
