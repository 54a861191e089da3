#include "codegen/kernel_module.h"

#include <fmt/format.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "codegen/bitcode.h"
#include "codegen/emit.h"
#include "codegen/grid_kernels.h"
#include "codegen/link.h"
#include "codegen/optimise.h"
#include "codegen/scaffold.h"
#include "runtime/abi/abi.h"

namespace mkc {
namespace {

std::unique_ptr<llvm::Module> read_bitcode(llvm::LLVMContext& context, const std::string& name, bool lines) {
  const std::span<const unsigned char> file = find_bitcode(name);
  const llvm::StringRef bytes(reinterpret_cast<const char*>(file.data()), file.size());
  auto module = llvm::getLazyBitcodeModule({bytes, name}, context);
  MKC_ASSERT(static_cast<bool>(module), "embedded bitcode " + name + " cannot be read");
  if (!lines) llvm::StripDebugInfo(**module);
  return std::move(*module);
}

// Returns the formats of the program's packed weights.
std::map<mkrt::WeightType, DType> packed_types(const TaskProgram& program) {
  std::map<mkrt::WeightType, DType> types;
  for (const Tensor& t : program.tensors)
    if (t.kind == TensorKind::kWeight && is_matrix(t)) types.emplace(weight_type(t), t.dtype);
  return types;
}

// Emits mk_pack(pack, workers, threads), which packs the weights of one format. The kernel has the code of
// the formats that the program has.
void emit_pack_kernel(llvm::Module& module, const TaskProgram& program) {
  Emitter e(module);
  e.begin_kernel("mk_pack", {e.global_ptr, e.ir.getInt32Ty(), e.ir.getInt32Ty()});
  llvm::Function& kernel = *e.function;
  llvm::Value* type = e.load32(kernel.getArg(0), offsetof(mkrt::MkPack, type));
  for (const auto [known, dtype] : packed_types(program)) {
    const std::string pack = fmt::format("mkd_pack_{}", dtype_name(dtype));
    e.if_then(e.ir.CreateICmpEQ(type, e.constant(static_cast<int64_t>(known))),
              [&] { e.call(pack.c_str(), {kernel.getArg(0), kernel.getArg(1), kernel.getArg(2)}); });
  }
  e.ir.CreateRetVoid();
}

void keep_only(llvm::Module& module, const std::vector<llvm::Function*>& kernels) {
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && std::find(kernels.begin(), kernels.end(), &f) == kernels.end())
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
}

// Gives declared functions what is known of them, so that calls whose results are not used are dropped.
void declare_as(const llvm::Module& library, llvm::Module& module) {
  for (llvm::Function& f : module)
    if (const llvm::Function* known = f.isDeclaration() ? library.getFunction(f.getName()) : nullptr)
      f.setAttributes(known->getAttributes());
}

void verify(const llvm::Module& module) {
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  MKC_ASSERT(!llvm::verifyModule(module, &stream), "generated LLVM IR is not valid: " + errors);
}

}  // namespace

std::unique_ptr<llvm::Module> make_kernel_module(llvm::LLVMContext& context, const Schedule& schedule,
                                                 const Kinds& kinds, Mode mode, const Engines& engines,
                                                 const Parts& parts) {
  auto module = std::make_unique<llvm::Module>("mk", context);
  std::unique_ptr<llvm::Module> first = read_bitcode(context, parts.names[0], parts.lines);
  module->setTargetTriple(first->getTargetTriple());
  module->setDataLayout(first->getDataLayout());
  switch (mode) {
    case Mode::kMegakernel:
    case Mode::kTraced:
      emit_kernel(*module, schedule, kinds, engines);
      break;
    case Mode::kKernels:
      emit_grid_kernels(*module, schedule, kinds, engines);
      break;
  }
  emit_pack_kernel(*module, schedule.program);
  const std::vector<llvm::Function*> kernels = kernels_of(*module);
  if (parts.called) {
    declare_as(*first, *module);
  } else {
    link(*module, std::move(first), Linked::kNeeded);
    for (const std::string& part : parts.names.subspan(1))
      link(*module, read_bitcode(context, part, parts.lines), Linked::kNeeded);
  }
  decide_tracing(*module, mode == Mode::kTraced);
  keep_only(*module, kernels);
  module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  verify(*module);
  return module;
}

std::unique_ptr<llvm::Module> make_probe_module(llvm::LLVMContext& context, const Target& target) {
  std::unique_ptr<llvm::Module> probe = read_bitcode(context, "probe", false);
  auto module = std::make_unique<llvm::Module>("probes", context);
  module->setTargetTriple(probe->getTargetTriple());
  module->setDataLayout(probe->getDataLayout());
  link(*module, std::move(probe), Linked::kAll);
  link(*module, read_bitcode(context, "measure", false), Linked::kAll);
  const auto leave_out = [&](const char* kernel) { module->getFunction(kernel)->eraseFromParent(); };
  if (!target.engines.bulk_copy) leave_out("probe_bulk"), leave_out("read_by_copies");
  if (!target.engines.warpgroups) leave_out("probe_wgmma"), leave_out("probe_setmaxnreg");
  const std::vector<llvm::Function*> kernels = kernels_of(*module);
  simplify_bodies(*module);
  for (const std::string& library : target.libraries)
    link(*module, read_bitcode(context, library, false), Linked::kNeeded);
  decide_tracing(*module, false);
  keep_only(*module, kernels);
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
