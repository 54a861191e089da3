#include "codegen/link.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Linker/Linker.h>

#include "ir/diag.h"

namespace mkc {
namespace {

// Drops clang's attributes for the processor that it compiled for. The target machine replaces them.
void forget_processor(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (const char* attribute :
         {"target-cpu", "target-features", "tune-cpu", "frame-pointer", "nvvm.maxntid"})
      f.removeFnAttr(attribute);
  if (llvm::NamedMDNode* flags = module.getModuleFlagsMetadata()) flags->eraseFromParent();
}

void forget_uses(llvm::Module& module) {
  for (const char* list : {"llvm.used", "llvm.compiler.used"})
    if (llvm::GlobalVariable* g = module.getNamedGlobal(list)) g->eraseFromParent();
}

}  // namespace

void link(llvm::Module& module, std::unique_ptr<llvm::Module> part, Linked what) {
  forget_processor(*part);
  forget_uses(*part);
  part->setTargetTriple(module.getTargetTriple());
  part->setDataLayout(module.getDataLayout());
  const bool failed = llvm::Linker::linkModules(
      module, std::move(part), what == Linked::kAll ? llvm::Linker::None : llvm::Linker::LinkOnlyNeeded);
  MKC_ASSERT(!failed, "device code does not link");
}

void decide_tracing(llvm::Module& module, bool traced) {
  llvm::GlobalVariable* global = module.getNamedGlobal("mk_traced");
  if (!global) return;
  for (llvm::User* user : llvm::make_early_inc_range(global->users())) {
    auto* load = llvm::cast<llvm::LoadInst>(user);
    load->replaceAllUsesWith(llvm::ConstantInt::getBool(load->getType(), traced));
    load->eraseFromParent();
  }
  global->eraseFromParent();
}

}  // namespace mkc
