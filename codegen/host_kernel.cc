#include "codegen/host_kernel.h"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>

#include <optional>
#include <sstream>

#include "codegen/bitcode.h"
#include "codegen/declared.h"
#include "codegen/host_bodies.h"
#include "codegen/jit.h"
#include "codegen/kernel_module.h"
#include "codegen/llvm_memory.h"
#include "codegen/optimise.h"
#include "codegen/race_hooks.h"
#include "codegen/step_counts.h"
#include "ir/print.h"
#include "runtime/artefact/manifest.h"

namespace mkc {
namespace {

mkrt::StepKernels find_entries(llvm::orc::LLJIT& jit, const Schedule& schedule, const Kinds& kinds,
                               Mode mode) {
  mkrt::StepKernels entries;
  entries.pack = or_bug(jit.lookup("mk_pack")).toPtr<mkrt::PackEntry>();
  if (mode != Mode::kKernels) {
    entries.step = or_bug(jit.lookup("mk_kernel")).toPtr<mkrt::KernelEntry>();
    return entries;
  }
  entries.grids.resize(kinds.first.size());
  for (const GridId id : launches_of(schedule)) {
    const uint32_t kind = kinds.of_grid[id.index];
    entries.grids[kind] = or_bug(jit.lookup(fmt::format("mk_grid_{}", kind))).toPtr<mkrt::GridEntry>();
  }
  return entries;
}

void list_writes(const Schedule& schedule, mkrt::StepKernels& entries) {
  for (const Slot& slot : schedule.slots) entries.tensors.push_back({slot.offset, slot.bytes});
  for (const TaskGrid& grid : schedule.program.grids) {
    std::vector<uint32_t>& written = entries.written.emplace_back();
    for (const Access& write : grid.writes)
      if (schedule.program.tensors[write.tensor].kind != TensorKind::kCache)
        written.push_back(write.tensor.index);
  }
}

struct Object {
  std::unique_ptr<llvm::MemoryBuffer> file;
  std::vector<std::string> sites;
};

// Returns the bodies that quick code calls. Null: the kernel inlines its bodies, or compiles them itself,
// because they are edited, or write a trace.
const HostBodies* called_bodies(const HostOptions& options) {
  return calls_bodies(options.mode, options.quick) && !options.edit ? host_bodies(options.race) : nullptr;
}

Object make_object(const Schedule& schedule, const Kinds& kinds, const HostOptions& options,
                   llvm::TargetMachine& machine) {
  llvm::LLVMContext context;
  const Engines engines = without({options.bulk_copy, options.bulk_copy}, options.without);
  // An edit finds the bodies as they were written. The library holds them simplified.
  const std::vector<std::string> parts = options.edit ? host_parts() : std::vector<std::string>{"host"};
  const std::unique_ptr<llvm::Module> module =
      make_kernel_module(context, schedule, kinds, options.mode, engines,
                         {parts, options.race || options.edit, called_bodies(options) != nullptr});
  if (options.edit) {
    options.edit(*module);
    simplify_bodies(*module);
  }
  optimise(*module, machine, options.quick);
  Object object;
  if (options.race) object.sites = add_race_hooks(*module);
  object.file = or_bug(llvm::orc::SimpleCompiler(machine)(*module));
  return object;
}

// Returns the object's name in the cache, a hash of everything that it depends on. "" means that the object
// is not kept.
std::string name_of(const Schedule& schedule, const HostOptions& options,
                    const llvm::TargetMachine& machine) {
  if (options.cache.folder.empty() || options.program.empty() || options.edit) return "";
  const std::string text =
      fmt::format("{}{} {} {}\nquick {} bulk_copy {} race {} mode {} without {}\n{}", options.program,
                  machine.getTargetTriple().str(), machine.getTargetCPU().str(),
                  machine.getTargetFeatureString().str(), options.quick, options.bulk_copy, options.race,
                  mode_name(options.mode), fmt::join(options.without, ","), print(schedule));
  return mkrt::hash_hex(text) + ".o";
}

Object find_or_make_object(const Schedule& schedule, const Kinds& kinds, const HostOptions& options,
                           llvm::TargetMachine& machine) {
  const std::string name = name_of(schedule, options, machine);
  if (const std::optional<Kept> kept = find_cached(options.cache, name)) {
    const llvm::StringRef bytes(reinterpret_cast<const char*>(kept->bytes.data()), kept->bytes.size());
    Object object{llvm::MemoryBuffer::getMemBufferCopy(bytes), {}};
    std::istringstream sites(kept->summary);
    for (std::string site; std::getline(sites, site);) object.sites.push_back(site);
    return object;
  }
  Object object = make_object(schedule, kinds, options, machine);
  const std::span<const char> file(object.file->getBufferStart(), object.file->getBufferSize());
  const std::span<const std::byte> bytes = std::as_bytes(file);
  Kept kept{{bytes.begin(), bytes.end()}, {}};
  for (const std::string& site : object.sites) kept.summary += site + "\n";
  keep_cached(options.cache, name, kept);
  return object;
}

}  // namespace

HostKernel compile_for_host(const Schedule& schedule, const HostOptions& options) {
  const LlvmMemory memory;
  llvm::orc::JITTargetMachineBuilder builder = host_machine(options.quick);
  const std::unique_ptr<llvm::TargetMachine> machine = or_bug(builder.createTargetMachine());
  const Kinds kinds = find_kinds(schedule, options.mode);
  Object object = find_or_make_object(schedule, kinds, options, *machine);
  const HostBodies* called = called_bodies(options);
  HostKernel kernel;
  kernel.sites = called ? called->sites : object.sites;  // the scaffold is site 0 in both

  std::shared_ptr<llvm::orc::LLJIT> jit =
      make_jit(std::move(builder), called ? called->functions : NamedFunctions{});
  or_bug(jit->addObjectFile(std::move(object.file)));
  kernel.entries = find_entries(*jit, schedule, kinds, options.mode);
  if (options.race) kernel.entries.rules = declared_regions(schedule);
  list_writes(schedule, kernel.entries);
  kernel.entries.looked_up = looked_up_tensors(schedule);
  kernel.entries.counts = step_counts(schedule, options.mode);
  kernel.code = std::move(jit);
  return kernel;
}

}  // namespace mkc
