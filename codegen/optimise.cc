#include "codegen/optimise.h"

#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace mkc {
namespace {

void let_bodies_be_inlined(llvm::Module& module, bool inlined) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || !f.getName().starts_with("mkb_")) continue;
    f.removeFnAttr(inlined ? llvm::Attribute::NoInline : llvm::Attribute::AlwaysInline);
    f.addFnAttr(inlined ? llvm::Attribute::AlwaysInline : llvm::Attribute::NoInline);
  }
}

// Brings every body to a simple form, with its marked loops unrolled: once, instead of once for every kind of
// grid that it is inlined for.
void simplify_bodies(llvm::Module& module, llvm::ModuleAnalysisManager& modules) {
  constexpr int level = 3;
  llvm::LoopPassManager unroll;
  unroll.addPass(llvm::LoopFullUnrollPass(level, /*OnlyWhenForced=*/true));
  llvm::FunctionPassManager simplify;
  simplify.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  simplify.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  simplify.addPass(llvm::SimplifyCFGPass());
  simplify.addPass(llvm::InstCombinePass());
  simplify.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopRotatePass()));
  simplify.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(unroll)));
  simplify.addPass(llvm::SimplifyCFGPass());
  simplify.addPass(llvm::InstCombinePass());

  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(simplify)));
  let_bodies_be_inlined(module, false);
  passes.run(module, modules);
  let_bodies_be_inlined(module, true);
}

}  // namespace

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;      // the bodies say which loops to unroll
  tuning.LoopVectorization = false;  // lanes are threads already
  tuning.SLPVectorization = false;
  llvm::PassBuilder passes(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  simplify_bodies(module, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(module, modules);
}

}  // namespace mkc
