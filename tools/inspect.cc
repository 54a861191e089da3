#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "codegen/kinds.h"
#include "runtime/artefact.h"
#include "runtime/kv_cache.h"
#include "runtime/plan.h"
#include "scheduler/cost.h"
#include "tools/commands.h"

namespace mkc {
namespace {

void print_artefact(const std::string& path, const mkrt::Artefact& a) {
  const mkrt::Manifest& m = a.manifest;
  mkrt::MkPlanHeader plan;
  std::memcpy(&plan, a.plan.data(), sizeof(plan));
  fmt::print("{}: {} for {}, by mkc {}\n", path, m.model, m.target, m.mkc_version);
  fmt::print("  launch     {} workers of {} threads, {} bytes of shared memory, {} stages\n", m.workers,
             m.threads, m.shared_bytes, m.ring_stages);
  if (!m.launches.empty())
    fmt::print("  mode       kernels: {} launches a step, one after the other\n", m.launches.size());
  fmt::print("  plan       {} grids, {} events with {} cells, {} segments\n", m.grids.size(), m.events.size(),
             m.event_cells, plan.segments);
  fmt::print("  memory     weights {} bytes, workspace {}, {} a position of a request\n", m.weight_bytes,
             m.workspace_bytes, mkrt::position_bytes(m));
  for (const mkrt::ManifestSymbol& s : m.symbols)
    fmt::print("  {:<10} {} in [{}, {}]\n", s.list ? "list" : "symbol", s.name, s.lo, s.hi);
  for (const auto* tensors : {&m.inputs, &m.outputs})
    for (const mkrt::ManifestTensor& t : *tensors)
      fmt::print("  {}     {} {} [{}]\n", tensors == &m.inputs ? "input " : "output", t.name,
                 mkrt::element_name(t.element), fmt::join(t.shape, ", "));
  fmt::print("  vocabulary {}, ends at [{}]\n", m.vocab, fmt::join(m.eos_ids, ", "));
  fmt::print("  config     {}\n  schedule   {}\n", m.config_hash, m.schedule_hash);
}

// The events that the first grid of each kind waits for, with their granularity and why it was chosen.
void print_events(const Compilation& c, const Kinds& kinds) {
  const TaskProgram& program = c.schedule().program;
  std::vector<std::string> symbols;
  for (const Symbol& s : program.symbols) symbols.push_back(s.name);
  fmt::print("{:<20} {:>20}  {}\n", "event", "expects", "granularity");
  std::set<EventId> printed;
  for (const GridId first : kinds.first)
    for (const Wait& wait : program.grids[first].waits) {
      const Event& event = program.events[wait.event];
      if (!printed.insert(wait.event).second) continue;
      fmt::print("{:<20} {:>20}  {}\n", event.name, to_string(event.expect, symbols),
                 c.event_reasons[wait.event.index]);
    }
}

// Grids of one kind on a line.
void print_schedule(const Compilation& c) {
  struct Row {
    size_t grids = 0;
    int64_t tasks = 0;
    uint64_t bytes = 0;
  };
  const Schedule& s = c.schedule();
  const Kinds kinds = find_kinds(s);
  const std::vector<int64_t> symbols = decode_symbols(s.program);
  std::vector<Row> rows(kinds.first.size());
  Row all;
  for (GridId id : s.program.grids.ids()) {
    const int64_t tasks = task_count(s.program.grids[id], symbols);
    const uint64_t bytes =
        task_cost(s.program, id, c.machine, symbols).stream_bytes * static_cast<uint64_t>(tasks);
    for (Row* row : {&rows[kinds.of_grid[id.index]], &all}) {
      ++row->grids;
      row->tasks += tasks;
      row->bytes += bytes;
    }
  }
  fmt::print("{} on {}: {} workers\n{}\n", c.request.family.name, c.machine.name, s.workers,
             to_string(c.proof, s));
  fmt::print("{:<20} {:>6} {:>8} {:>14}  {}\n", "kind", "grids", "tasks", "streamed bytes", "placement");
  for (size_t k = 0; k < rows.size(); ++k) {
    const GridId first = kinds.first[k];
    fmt::print("{:<20} {:>6} {:>8} {:>14}  {}\n", s.program.grids[first].name, rows[k].grids, rows[k].tasks,
               rows[k].bytes, s.placements[first.index].reason);
  }
  fmt::print("{:<20} {:>6} {:>8} {:>14}\n", "a decode step", all.grids, all.tasks, all.bytes);
  print_events(c, kinds);
  fmt::print("events {}, cells {}; weights {} bytes, workspace {}, {} a position of a request\n",
             s.program.events.size(), s.event_cells, s.weight_bytes, s.workspace_bytes,
             position_bytes(s.program));
}

Status inspect(const ModelRequest& request) {
  if (std::filesystem::path(request.model).extension() == ".cubin") {
    const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(request.model);
    if (!artefact.ok()) return artefact.error();
    print_artefact(request.model, artefact.value());
    return {};
  }
  Result<Compilation> c = open_model(request, false);
  if (!c.ok()) return c.error();
  if (Status status = run_passes(c.value()); !status.ok()) return status;
  print_schedule(c.value());
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "what a cubin says of itself, or how a model is scheduled");
  auto request = std::make_shared<ModelRequest>();
  add_model_options(*command, *request);
  command->add_option("--target", request->options.target, "of the schedule; default sm_90a");
  command->callback([request, &action] { action = [request] { return inspect(*request); }; });
}

}  // namespace mkc
