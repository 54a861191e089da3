#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/artefact/artefact.h"
#include "runtime/artefact/plan.h"
#include "runtime/base/counted.h"
#include "runtime/session/kv_cache.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/weight_table.h"

namespace mkc {
namespace {

void print_artefact(const std::string& path, const mkrt::Artefact& a) {
  const mkrt::Manifest& m = a.manifest;
  mkrt::MkPlanHeader plan;
  std::memcpy(&plan, a.plan.data(), sizeof(plan));
  print_out("{}: {} for {}, by mkc {}\n", path, m.model, m.target, m.mkc_version);
  print_out("  launch     {} of {}, {} bytes of shared memory, {}\n", mkrt::counted(m.workers, "worker"),
            mkrt::counted(m.threads, "thread"), m.shared_bytes, mkrt::counted(m.ring_stages, "stage"));
  if (!m.launches.empty())
    print_out("  mode       kernels: {} launches a step, one after the other\n", m.launches.size());
  if (m.traced) print_out("  mode       traced\n");
  if (!m.without.empty()) print_out("  without    {}\n", fmt::join(m.without, ", "));
  print_out("  plan       {} grids, {} events with {} cells, {} segments\n", m.grids.size(), m.events.size(),
            m.event_cells, plan.segments);
  print_out("  memory     weights {} bytes, workspace {}, {} a position of a request\n", m.weight_bytes,
            m.workspace_bytes, mkrt::position_bytes(m));
  for (const mkrt::ManifestSymbol& s : m.symbols)
    print_out("  {:<10} {} in [{}, {}]\n", s.list ? "list" : "symbol", s.name, s.lo, s.hi);
  for (const auto* tensors : {&m.inputs, &m.outputs})
    for (const mkrt::ManifestTensor& t : *tensors)
      print_out("  {}     {} {} [{}]\n", tensors == &m.inputs ? "input " : "output", t.name,
                mkrt::element_name(t.element), fmt::join(t.shape, ", "));
  print_out("  vocabulary {}, ends at [{}]\n", m.vocab, fmt::join(m.eos_ids, ", "));
  const mkrt::Certificate& proof = m.certificate;
  print_out("  {:<10} by mkc {}\n", proof.verdict.empty() ? "unproved" : proof.verdict, proof.version);
  for (const auto& [how, what] :
       {std::pair("by form", proof.symbolic), std::pair("by value", proof.enumeration),
        std::pair("by lemma", proof.lemmas)})
    if (!what.empty()) print_out("    {:<10} {}\n", how, what);
  print_out("  seal       {}\n  code       {}\n", m.seal, m.code_seal);
  print_out("  config     {}\n  schedule   {}\n", m.config_hash, m.schedule_hash);
  print_weights(m.weights);
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "what a cubin or shared object says of itself");
  struct Arguments {
    std::string path;
    bool json = false;
    mkrt::SealCheck seal = mkrt::SealCheck::kRequired;
  };
  auto a = std::make_shared<Arguments>();
  command->add_option("ARTEFACT", a->path, "a cubin or shared object made by mkc compile")
      ->type_name("FILE")
      ->required();
  command->add_flag("--json", a->json, "print its manifest");
  command->add_flag_callback(
      "--unsafe-artefact", [a] { a->seal = mkrt::SealCheck::kSkipped; },
      "look at an artefact whose seal is broken, or whose schedule was not proved (docs/trust.md)");
  command->callback([a, &action] {
    action = [a]() -> Status {
      const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(a->path, a->seal);
      if (!artefact.ok()) return artefact.error();
      if (a->json)
        put_stdout(mkrt::to_json(artefact.value().manifest) + "\n");
      else
        print_artefact(a->path, artefact.value());
      return {};
    };
  });
}

}  // namespace mkc
