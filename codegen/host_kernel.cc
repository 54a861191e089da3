#include "codegen/host_kernel.h"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "codegen/declared.h"
#include "codegen/kernel_module.h"
#include "codegen/optimise.h"
#include "codegen/race_hooks.h"
#include "codegen/step_counts.h"

namespace mkc {
namespace {

template <class T>
T or_bug(llvm::Expected<T> value) {
  if (!value) MKC_BUG("host code: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

void or_bug(llvm::Error error) {
  if (error) MKC_BUG("host code: " + llvm::toString(std::move(error)));
}

llvm::orc::JITTargetMachineBuilder host_machine() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::orc::JITTargetMachineBuilder machine = or_bug(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  return machine;
}

void define_primitives(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap symbols;
  for (const auto& [name, address] : mkrt::emulator_symbols())
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  or_bug(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
}

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

// The library of simplified bodies, or for an edit each as it is.
std::vector<std::string> parts_for(const HostOptions& options) {
  const std::string tracing = tracing_of(options.mode);
  if (!options.edit) return {(options.race ? "host_lines_" : "host_") + tracing};
  return {"worker",      "segments", "stream", "lists",   "tickets", "product", "finish", "attend",
          "attend_load", "tokens",   "route",  "experts", "draw",    "steps",   "pack",   tracing};
}

}  // namespace

HostKernel compile_for_host(const Schedule& schedule, const HostOptions& options) {
  llvm::orc::JITTargetMachineBuilder builder = host_machine();
  const std::unique_ptr<llvm::TargetMachine> machine = or_bug(builder.createTargetMachine());
  auto context = std::make_unique<llvm::LLVMContext>();
  const Kinds kinds = find_kinds(schedule);
  const Engines engines = without({options.bulk_copy, options.bulk_copy}, options.without);
  std::unique_ptr<llvm::Module> module =
      make_kernel_module(*context, schedule, kinds, options.mode, engines, parts_for(options));
  if (options.edit) {
    options.edit(*module);
    simplify_bodies(*module);
  }
  optimise(*module, *machine);
  HostKernel kernel;
  if (options.race) kernel.sites = add_race_hooks(*module);

  std::shared_ptr<llvm::orc::LLJIT> jit =
      or_bug(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(builder)).create());
  define_primitives(*jit);
  or_bug(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  kernel.entries = find_entries(*jit, schedule, kinds, options.mode);
  if (options.race) kernel.entries.rules = declared_regions(schedule);
  list_writes(schedule, kernel.entries);
  kernel.entries.looked_up = looked_up_tensors(schedule);
  kernel.entries.counts = step_counts(schedule, options.mode);
  kernel.code = std::move(jit);
  return kernel;
}

}  // namespace mkc
