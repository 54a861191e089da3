#include "codegen/nvptx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <mutex>
#include <span>

#include "codegen/kernel_module.h"
#include "codegen/lint_ptx.h"
#include "codegen/llvm_memory.h"
#include "codegen/optimise.h"
#include "runtime/abi/abi.h"
#include "runtime/artefact/seal.h"

namespace mkc {
namespace {

std::unique_ptr<llvm::TargetMachine> gpu_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // Loop strength reduction keeps each address in a register of its own. Kernels with many loops lack these
    // registers, and the pass takes a third of the compile time. Only this option disables it.
    const char* options[] = {"mkc", "-disable-lsr"};
    llvm::cl::ParseCommandLineOptions(std::size(options), options);
  });
  const llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* nvptx = llvm::TargetRegistry::lookupTarget(triple, error);
  MKC_ASSERT(nvptx, "LLVM without NVPTX: " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion =
      llvm::FPOpFusion::Fast;  // f32 multiplications and additions are fused to multiply-adds
  return std::unique_ptr<llvm::TargetMachine>(nvptx->createTargetMachine(triple, target.cpu, target.features,
                                                                         options, std::nullopt, std::nullopt,
                                                                         llvm::CodeGenOptLevel::Default));
}

// Gives a kernel its calling convention and launch bounds. All threads of the launch are resident at once,
// one worker per SM, so a worker may use all registers of the SM.
void make_kernel_entry(llvm::Function& kernel) {
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel.addFnAttr("nvvm.maxntid", std::to_string(mkrt::kWorkerThreads));
  kernel.addFnAttr("nvvm.minctasm", "1");
}

// GpuModule is the optimised module, with the machine and the context that it depends on.
struct GpuModule {
  std::unique_ptr<LlvmMemory> memory = std::make_unique<LlvmMemory>();  // before all objects of LLVM
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

GpuModule make_gpu_module(const Schedule& schedule, Mode mode, const Target& target) {
  GpuModule gpu;
  gpu.machine = gpu_machine(target);
  gpu.context = std::make_unique<llvm::LLVMContext>();
  gpu.module = make_kernel_module(*gpu.context, schedule, find_kinds(schedule, mode), mode, target.engines,
                                  {target.libraries});
  for (llvm::Function* kernel : kernels_of(*gpu.module)) make_kernel_entry(*kernel);
  optimise(*gpu.module, *gpu.machine);
  return gpu;
}

std::string emit_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  const bool cannot =
      machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
  MKC_ASSERT(!cannot, "LLVM cannot emit PTX");
  passes.run(module);
  return {text.begin(), text.end()};
}

// Returns the definition of a global with these bytes, as PTX. Requires whole 8-byte words.
std::string ptx_bytes(const char* name, std::span<const std::byte> bytes) {
  // The assembler reads words several times faster than bytes.
  MKC_ASSERT(bytes.size() % sizeof(uint64_t) == 0, "data of a cubin is not whole words");
  const size_t words = bytes.size() / sizeof(uint64_t);
  std::string text = fmt::format("\n.visible .global .align 16 .b64 {}[{}] = {{", name, words);
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + sizeof(word) * i, sizeof(word));
    fmt::format_to(std::back_inserter(text), "{}0x{:x}", i == 0 ? "" : ",", word);
  }
  return text + "};\n";
}

}  // namespace

std::string make_llvm_ir(const Schedule& schedule, Mode mode, const Target& target) {
  const GpuModule gpu = make_gpu_module(schedule, mode, target);
  std::string text;
  llvm::raw_string_ostream stream(text);
  gpu.module->print(stream, nullptr);
  return text;
}

std::string make_probe_ptx(const Target& target) {
  const LlvmMemory memory;
  const std::unique_ptr<llvm::TargetMachine> machine = gpu_machine(target);
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = make_probe_module(context, target);
  for (llvm::Function* kernel : kernels_of(*module))
    if (kernel->getName().starts_with("probe_")) make_kernel_entry(*kernel);
  optimise(*module, *machine);
  return emit_ptx(*module, *machine);
}

std::string make_ptx(const Schedule& schedule, Mode mode, std::span<const std::byte> plan,
                     const Target& target) {
  const GpuModule gpu = make_gpu_module(schedule, mode, target);
  std::string ptx = emit_ptx(*gpu.module, *gpu.machine);
  ptx += ptx_bytes("mk_plan", plan);
  const std::vector<std::string> faults = lint_ptx(ptx);
  MKC_ASSERT(faults.empty(), fmt::format("PTX is not acceptable:\n{}", fmt::join(faults, "\n")));
  return ptx;
}

std::string add_manifest(std::string ptx, const mkrt::Manifest& manifest) {
  const std::string json = mkrt::to_json_with_room(manifest);
  return std::move(ptx) + ptx_bytes("mk_manifest", std::as_bytes(std::span(json)));
}

std::string llvm_version() {
  return LLVM_VERSION_STRING;
}

}  // namespace mkc
