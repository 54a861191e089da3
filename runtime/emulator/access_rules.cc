#include "runtime/emulator/access_rules.h"

#include "runtime/emulator/launch.h"

namespace mkrt::emulator {

void check_access(const Fiber& fiber, const void* p, uint32_t bytes, uint32_t site, bool write) {
  const Launch& launch = fiber.worker->launch;
  AccessRules* rules = launch.options.rules;
  const TaskRange& tasks = fiber.works_for;
  if (rules == nullptr || tasks.count == 0) return;
  const auto in_shared = static_cast<size_t>(static_cast<const char*>(p) - fiber.worker->shared);
  if (in_shared < launch.options.shared_bytes || fiber.worker->stacks.contains(p)) return;
  const auto* fault = reinterpret_cast<const MkFault*>(launch.session->fault);
  if (fault != nullptr && fault->state != 0) return;
  const auto broken = [&] {
    return rules->check(tasks.grid, tasks.first, tasks.count, reinterpret_cast<uint64_t>(p), bytes, write);
  };
  if (broken().empty()) return;
  fail([&] {  // fail() never returns and destroys nothing, so no string may live here
    const std::string at = site != kNoSite && launch.names.site ? launch.names.site(site) : std::string();
    return broken() + (at.empty() ? at : ", at " + at);
  });
}

}  // namespace mkrt::emulator
