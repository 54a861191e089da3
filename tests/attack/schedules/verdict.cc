#include "tests/attack/schedules/verdict.h"

#include "ir/verify.h"
#include "scheduler/proof/prove.h"
#include "tests/apart.h"

namespace mkc::attack {
namespace {

constexpr uint32_t kSeconds = 120;  // processor time of one check, at most

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
  const auto work = [&]() -> std::string { return is_accepted(schedule) ? "accepted" : "refused"; };
  const test::ApartResult apart = test::run_apart(work, kSeconds);
  if (apart.end != test::ApartResult::End::kReturned) return Verdict::kCrashed;
  return apart.text == "accepted" ? Verdict::kAccepted : Verdict::kRefused;
}

}  // namespace mkc::attack
