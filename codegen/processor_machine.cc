#include "codegen/processor_machine.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

namespace mkc {

std::unique_ptr<llvm::TargetMachine> processor_machine(const Target& target, llvm::CodeGenOptLevel level) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();  // system calls
  });
  const llvm::Triple triple("x86_64-linux-gnu");
  std::string error;
  const llvm::Target* x86 = llvm::TargetRegistry::lookupTarget(triple, error);
  MKC_ASSERT(x86, "LLVM without x86-64: " + error);
  return std::unique_ptr<llvm::TargetMachine>(
      x86->createTargetMachine(triple, target.cpu, target.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                               llvm::CodeModel::Small, level));
}

}  // namespace mkc
