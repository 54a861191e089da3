#include "scheduler/proof/prove.h"

#include <fmt/format.h>

#include "scheduler/proof/accesses.h"
#include "scheduler/proof/check_values.h"
#include "scheduler/proof/memory.h"
#include "scheduler/proof/placements.h"

namespace mkc {
namespace {

using namespace proof;

// Checks the rules that do not depend on values.
Status check_static(const Context& c) {
  for (auto rule : {check_streams, check_memory, check_ring})
    if (Status status = rule(c); !status.ok()) return status;
  return {};
}

Status check_all_values(Context& c) {
  const Result<Sources> sources = check_counts(c);
  if (!sources.ok()) return sources.error();
  for (auto rule : {check_starts, check_lookups})
    if (Status status = rule(c, sources.value()); !status.ok()) return status;
  const Result<Order> order = check_order(c, sources.value());
  if (!order.ok()) return order.error();
  for (auto rule : {check_accesses, check_caches})
    if (Status status = rule(c, sources.value(), order.value()); !status.ok()) return status;
  return check_sharing(c, order.value());
}

}  // namespace

Result<ProofReport> prove(const Schedule& schedule, const Places* places) {
  Context c(schedule, places);
  if (Status status = check_static(c); !status.ok()) return status.error();
  const Status status = check_all_values(c);
  if (status.ok()) return c.report;
  // Values at which the schedule is wrong tell more than a statement that is not proved.
  const Result<ValuesChecked> walked = check_at_values(schedule, places);
  if (!walked.ok()) return walked.error();
  if (!walked.value().all || !c.is_unproved) return status.error();
  // Values show no fault of who starts tasks.
  if (Status starts = check_starts(c, notifiers_of(c.p)); !starts.ok()) return starts.error();
  return ProofReport{.enumerated = walked.value().values.size()};
}

std::string to_string(const ProofReport& report, const Schedule& schedule) {
  return fmt::format(
      "{}: proved for all values: no deadlock, counts, order, coverage, memory; {} statements by form, {} "
      "value "
      "by value, {} by lemma",
      schedule.program.name, report.symbolic, report.enumerated, report.lemmas);
}

}  // namespace mkc
