#include "tests/attack/schedules/judge.h"

#include "tests/attack/schedules/contract.h"
#include "tests/attack/schedules/run.h"

namespace mkc::attack {

std::optional<Finding> judge(const Schedule& s, const std::vector<Hint>& hints, const Effort& effort,
                             Rng rng) {
  try {
    check_contract(s);
    const Steps steps(s.program, hints, effort.max_tokens);
    const auto count = static_cast<uint32_t>(hints.size()) + effort.steps;
    for (uint32_t i = 0; i < count; ++i) {
      const std::optional<Step> step = steps.draw(i, rng);
      if (!step) continue;
      Prepared prepared(s, *step);
      for (uint32_t order = 0; order < effort.orders; ++order) Run(prepared, rng).go();
    }
  } catch (const Finding& finding) {
    return finding;
  }
  return std::nullopt;
}

}  // namespace mkc::attack
