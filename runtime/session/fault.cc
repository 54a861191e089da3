#include "runtime/session/fault.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkrt {

Status check_fault(const MkFault& fault, const Manifest& manifest, const std::string& device,
                   uint64_t timeout_ns) {
  if (fault.state == 0) return {};
  const auto named =
      std::find_if(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& e) {
        return fault.cell >= e.first_cell && fault.cell - e.first_cell < e.cells;
      });
  const auto timed_out = [](std::string message) { return Error{std::move(message), ErrorKind::kTimeout}; };
  const std::string event = named == manifest.events.end()
                                ? fmt::format("cell {}", fault.cell)
                                : fmt::format("{}[{}]", named->name, fault.cell - named->first_cell);
  const std::string grid = fault.grid < manifest.grids.size() ? manifest.grids[fault.grid].name
                                                              : fmt::format("grid {}", fault.grid);
  if (fault.cell == kStepCell)
    return timed_out(
        fmt::format("{}: error: worker {} waited for step {} of the launch beyond {} ms: step {} has begun",
                    device, fault.worker, fault.expected, 2 * timeout_ns / 1'000'000, fault.seen));
  if (fault.cell == kRingCell)
    return timed_out(
        fmt::format("{}: error: worker {} at task {}[{}] waited for stage {} of its ring beyond {} ms",
                    device, fault.worker, grid, fault.task, fault.seen, timeout_ns / 1'000'000));
  if (fault.cell == kClaimedCell)
    return timed_out(fmt::format(
        "{}: error: worker {} after task {}[{}] waited for task {} that its loader claims beyond {} ms",
        device, fault.worker, grid, fault.task, fault.seen, timeout_ns / 1'000'000));
  if (fault.task == kLookUpTask)
    return timed_out(
        fmt::format("{}: error: worker {} looking up the tasks of {} waited for event {} beyond {} ms: seen "
                    "{}, expected {}",
                    device, fault.worker, grid, event, timeout_ns / 1'000'000, fault.seen, fault.expected));
  return timed_out(fmt::format(
      "{}: error: worker {} task {}[{}] waited for event {} beyond {} ms: seen {}, expected {}", device,
      fault.worker, grid, fault.task, event, timeout_ns / 1'000'000, fault.seen, fault.expected));
}

}  // namespace mkrt
