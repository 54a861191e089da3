#include "codegen/jit.h"

#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "runtime/emulator/emulator.h"

namespace mkc {

void or_bug(llvm::Error error) {
  if (error) MKC_BUG("host code: " + llvm::toString(std::move(error)));
}

llvm::orc::JITTargetMachineBuilder host_machine(bool quick) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::orc::JITTargetMachineBuilder machine = or_bug(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.setRelocationModel(llvm::Reloc::PIC_).setCodeModel(llvm::CodeModel::Small);  // needed by LLJIT
  machine.setCodeGenOptLevel(quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Less);
  return machine;
}

std::unique_ptr<llvm::orc::LLJIT> make_jit(llvm::orc::JITTargetMachineBuilder machine,
                                           const NamedFunctions& functions) {
  std::unique_ptr<llvm::orc::LLJIT> jit =
      or_bug(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create());
  llvm::orc::SymbolMap symbols;
  const auto define = [&](const std::string& name, void* address) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                           llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  for (const auto& [name, address] : mkrt::emulator_symbols()) define(name, address);
  for (const auto& [name, address] : functions) define(name, address);
  or_bug(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  return jit;
}

}  // namespace mkc
