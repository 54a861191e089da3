#include "codegen/kernel_module.h"

#include <fmt/format.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "codegen/bitcode.h"
#include "codegen/grid_kernels.h"
#include "codegen/scaffold.h"

namespace mkc {
namespace {

constexpr const char* kBodies[] = {"worker", "tickets", "product", "attend", "tokens",
                                   "route",  "experts", "draw",    "steps"};

std::unique_ptr<llvm::Module> read_bitcode(llvm::LLVMContext& context, const std::string& name) {
  for (const Bitcode& file : device_bitcode()) {
    if (file.name != name) continue;
    const llvm::StringRef bytes(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
    auto module = llvm::parseBitcodeFile({bytes, name}, context);
    MKC_ASSERT(static_cast<bool>(module), "embedded bitcode " + name + " cannot be read");
    return std::move(*module);
  }
  MKC_BUG("no embedded bitcode " + name);
}

// What clang noted for the processor it compiled for; the target machine knows better.
void forget_processor(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (const char* attribute :
         {"target-cpu", "target-features", "tune-cpu", "frame-pointer", "nvvm.maxntid"})
      f.removeFnAttr(attribute);
  if (llvm::NamedMDNode* flags = module.getModuleFlagsMetadata()) flags->eraseFromParent();
}

// Bodies are kept for whoever links them, used or not; here only what the kernels use is wanted.
void forget_uses(llvm::Module& module) {
  for (const char* list : {"llvm.used", "llvm.compiler.used"})
    if (llvm::GlobalVariable* g = module.getNamedGlobal(list)) g->eraseFromParent();
}

void link(llvm::Module& module, std::unique_ptr<llvm::Module> part) {
  forget_processor(*part);
  forget_uses(*part);
  part->setTargetTriple(module.getTargetTriple());
  part->setDataLayout(module.getDataLayout());
  const bool failed = llvm::Linker::linkModules(module, std::move(part), llvm::Linker::LinkOnlyNeeded);
  MKC_ASSERT(!failed, "device code does not link");
}

void keep_only(llvm::Module& module, const std::vector<llvm::Function*>& kernels) {
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && std::find(kernels.begin(), kernels.end(), &f) == kernels.end())
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
}

void verify(const llvm::Module& module) {
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  MKC_ASSERT(!llvm::verifyModule(module, &stream), "generated LLVM IR is not valid: " + errors);
}

}  // namespace

std::unique_ptr<llvm::Module> make_kernel_module(llvm::LLVMContext& context, const Schedule& schedule,
                                                 const Kinds& kinds, Mode mode, bool bulk_copy,
                                                 std::span<const std::string> primitives) {
  auto module = std::make_unique<llvm::Module>("mk", context);
  std::unique_ptr<llvm::Module> first = read_bitcode(context, kBodies[0]);
  module->setTargetTriple(first->getTargetTriple());
  module->setDataLayout(first->getDataLayout());
  switch (mode) {
    case Mode::kMegakernel:
      emit_kernel(*module, schedule, kinds, bulk_copy);
      break;
    case Mode::kKernels:
      emit_grid_kernels(*module, schedule, kinds, bulk_copy);
      break;
  }
  const std::vector<llvm::Function*> kernels = kernels_of(*module);
  link(*module, std::move(first));
  for (const char* body : kBodies)
    if (body != kBodies[0]) link(*module, read_bitcode(context, body));
  for (const std::string& name : primitives) link(*module, read_bitcode(context, name));
  keep_only(*module, kernels);
  module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  verify(*module);
  return module;
}

std::vector<llvm::Function*> kernels_of(llvm::Module& module) {
  std::vector<llvm::Function*> kernels;
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && f.hasExternalLinkage()) kernels.push_back(&f);
  return kernels;
}

}  // namespace mkc
