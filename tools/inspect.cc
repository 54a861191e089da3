#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/artefact.h"
#include "runtime/kv_cache.h"
#include "runtime/plan.h"
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
  if (m.traced) fmt::print("  mode       traced\n");
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

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "what a cubin says of itself");
  auto path = std::make_shared<std::string>();
  command->add_option("CUBIN", *path, "made by mkc compile")->required();
  command->callback([path, &action] {
    action = [path]() -> Status {
      const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(*path);
      if (!artefact.ok()) return artefact.error();
      print_artefact(*path, artefact.value());
      return {};
    };
  });
}

}  // namespace mkc
