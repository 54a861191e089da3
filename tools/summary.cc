#include "tools/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/describe.h"
#include "codegen/kinds.h"
#include "runtime/abi/packing.h"
#include "scheduler/machine/cost.h"

namespace mkc {
namespace {

using nlohmann::json;

uint64_t tasks_of(const Schedule& schedule) {
  const std::vector<int64_t> symbols = decode_symbols(schedule.program);
  uint64_t tasks = 0;
  for (const TaskGrid& grid : schedule.program.grids)
    tasks += static_cast<uint64_t>(task_count(grid, symbols));
  return tasks;
}

json search_summary(const Compilation& c) {
  json out{{"evaluations", c.found.evaluations},
           {"complete", c.found.complete},
           {"figures", c.found.figures},
           {"text", search_text(c)}};
  if (!c.found.figures.empty()) out["schedule"] = schedule_yaml(c.request);
  return out;
}

uint64_t spilled(const Resources& kernel) {
  return uint64_t{kernel.spill_store_bytes} + kernel.spill_load_bytes;
}

}  // namespace

json summarise(const Compilation& c, const GpuBuild& build) {
  const Schedule& s = c.schedule();
  json out;
  out["model"] = c.request.family.name;
  out["target"] = c.request.target;
  out["without"] = c.without;
  out["mode"] = mode_name(c.mode);
  out["machine"] = c.machine.name;
  out["workers"] = s.workers;
  out["grids"] = s.program.grids.size();
  out["ring_bytes"] = s.ring.stages * mkrt::kStageBytes;
  out["shared_bytes"] = build.manifest.shared_bytes;
  out["events"] = s.program.events.size();
  out["event_cells"] = s.event_cells;
  out["decode_tasks"] = tasks_of(s);
  out["kinds"] = find_kinds(s, c.mode).first.size();
  out["weight_bytes"] = s.weight_bytes;
  out["workspace_bytes"] = s.workspace_bytes;
  out["position_bytes"] = position_bytes(s.program);
  out["ptx_bytes"] = build.ptx.size();
  out["proof"] = to_string(c.proof, s);
  if (c.search) out["search"] = search_summary(c);
  return out;
}

void add_cubin(json& summary, const Cubin& cubin, const Assembler& assembler) {
  uint32_t registers = 0, stack_bytes = 0;
  uint64_t spill_bytes = 0;
  for (const Resources& r : read_resources(cubin.log)) {
    summary["kernels"][r.kernel] = {
        {"registers", r.registers}, {"stack_bytes", r.stack_bytes}, {"spill_bytes", spilled(r)}};
    registers = std::max(registers, r.registers);
    stack_bytes = std::max(stack_bytes, r.stack_bytes);
    spill_bytes += spilled(r);
  }
  summary["cubin_bytes"] = cubin.bytes.size();
  summary["registers"] = registers;
  summary["stack_bytes"] = stack_bytes;
  summary["spill_bytes"] = spill_bytes;
  summary["assembler"] = assembler.name();
}

std::string to_string(const json& summary, const std::string& output, bool cached) {
  std::string text;
  if (summary.contains("search")) text += summary["search"]["text"].get<std::string>() + "\n";
  text += summary["proof"].get<std::string>() + "\n";
  const auto target = summary["target"].get<std::string>();
  if (summary.contains("code_bytes"))
    return text + fmt::format("wrote {}: {} bytes for {}{}\n", output, summary["code_bytes"].get<uint64_t>(),
                              target, cached ? ", from the cache" : "");
  if (!summary.contains("cubin_bytes"))
    return text + fmt::format("wrote {}: {} bytes of PTX for {}\n", output,
                              summary["ptx_bytes"].get<uint64_t>(), target);
  const size_t kernels =  // kernels of a step, without mk_pack
      summary.contains("kernels") ? summary["kernels"].size() - summary["kernels"].count("mk_pack") : 0;
  text += fmt::format("assembled by {}\n", summary["assembler"].get<std::string>());
  return text + fmt::format("wrote {}: {} bytes for {}, {}{} registers, {} bytes spilled{}\n", output,
                            summary["cubin_bytes"].get<uint64_t>(), target,
                            kernels == 1 ? "" : fmt::format("{} kernels of up to ", kernels),
                            summary["registers"].get<uint32_t>(), summary["spill_bytes"].get<uint64_t>(),
                            cached ? ", from the cache" : "");
}

}  // namespace mkc
