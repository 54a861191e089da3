#include "codegen/optimise.h"

#include <llvm/Passes/PassBuilder.h>

namespace mkc {
namespace {

// kSimplify does not hoist values out of loops, because that costs registers in a kernel with many bodies.
// kOptimise hoists where it pays.
// Functions are small before they are inlined, so that fewer instructions are copied.
constexpr const char* kSimplify =
    "globaldce,function(sroa<modify-cfg>,early-cse,simplifycfg),always-inline,function("
    "sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop(loop-rotate,loop-unroll-full),sroa<modify-cfg>,simplifycfg,instcombine<max-iterations=1;no-verify-"
    "fixpoint>,"
    "sccp,instcombine<max-iterations=1;no-verify-fixpoint>,adce,simplifycfg)";

// kDescribe finds out which functions only read memory.
constexpr const char* kDescribe = "cgscc(function-attrs)";

// kOptimise inlines the bodies and folds values that are constant for the model's sizes.
constexpr const char* kOptimise =
    "always-inline,globaldce,function("
    "sroa<modify-cfg>,early-cse<memssa>,sccp,simplifycfg,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-mssa(licm<allowspeculation>),adce,simplifycfg)";

// kQuick leaves bodies as functions, so that each is compiled once and for all sizes. Values stay in loops.
constexpr const char* kQuick =
    "always-inline,globaldce,function(sroa<modify-cfg>,early-cse,sccp,simplifycfg,adce)";

void run_pipeline(llvm::Module& module, llvm::TargetMachine* machine, const char* pipeline) {
  llvm::PassBuilder builder(machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline));
  passes.run(module, modules);
}

void let_bodies_be_inlined(llvm::Module& module, bool inlined) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    const bool always = inlined || !f.getName().starts_with("mkb_");
    f.removeFnAttr(always ? llvm::Attribute::NoInline : llvm::Attribute::AlwaysInline);
    f.addFnAttr(always ? llvm::Attribute::AlwaysInline : llvm::Attribute::NoInline);
  }
}

}  // namespace

void simplify_bodies(llvm::Module& module) {
  let_bodies_be_inlined(module, false);
  run_pipeline(module, nullptr, kSimplify);
  run_pipeline(module, nullptr, kDescribe);
  let_bodies_be_inlined(module, true);
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool quick) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  if (quick) let_bodies_be_inlined(module, false);
  run_pipeline(module, &machine, quick ? kQuick : kOptimise);
}

void sanitize_threads([[maybe_unused]] llvm::Module& module) {
#if __has_feature(thread_sanitizer)
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) f.addFnAttr(llvm::Attribute::SanitizeThread);
  run_pipeline(module, nullptr, "tsan-module,function(tsan)");
#endif
}

}  // namespace mkc
