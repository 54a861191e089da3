#include "tests/attack/faults_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/apart.h"

namespace mkc::attack {
namespace {

// Each row has a text in an error, and who reports it.
constexpr std::array<std::pair<const char*, const char*>, 6> kReporters = {{
    {" races\n", "race"},
    {" of the launch ended with ", "counts"},
    {"deadlock:\n", "deadlock"},
    {"livelock: ", "deadlock"},
    {" beyond ", "deadline"},
    {"worker ", "misuse"},
}};

std::string reporter_of(const std::string& error) {
  for (const auto& [text, reporter] : kReporters)
    if (error.find(text) != std::string::npos) return reporter;
  return {};
}

// Checks what comes after an error: the session has ended, and another one on the same device is right.
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
  const auto work = [&] {
    const FaultResult r = run_here(fixture, c);
    return fmt::format("{}\n{}\n{}", static_cast<int>(r.verdict), r.how, r.detail);
  };
  const auto [end, text] = test::run_apart(work, seconds);
  if (end == test::ApartResult::End::kLate) return {FaultVerdict::kTimedOut, {}, text};
  if (end == test::ApartResult::End::kCrashed) return {FaultVerdict::kCrashed, {}, text};
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  return {static_cast<FaultVerdict>(std::stoi(text)), text.substr(first + 1, second - first - 1),
          text.substr(second + 1)};
}

}  // namespace mkc::attack
