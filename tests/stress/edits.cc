#include "tests/stress/edits.h"

#include <doctest/doctest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <cstddef>

#include "codegen/device/worker.h"

namespace mkc::test {
namespace {

bool calls_name(const llvm::CallInst& call, const std::string& name) {
  const llvm::Function* f = call.getCalledFunction();
  return f != nullptr && f->getName().contains(name);
}

llvm::Value* add_relaxed(llvm::IRBuilder<>& ir, llvm::CallInst& call) {
  return ir.CreateAtomicRMW(llvm::AtomicRMWInst::Add, call.getArgOperand(0), call.getArgOperand(1),
                            llvm::MaybeAlign(4), llvm::AtomicOrdering::Monotonic);
}

llvm::Value* call_primitive(llvm::IRBuilder<>& ir, const char* name, llvm::Type* result,
                            const std::vector<llvm::Value*>& arguments) {
  std::vector<llvm::Type*> types;
  for (const llvm::Value* argument : arguments) types.push_back(argument->getType());
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  return ir.CreateCall(
      module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, /*isVarArg=*/false)),
      arguments);
}

llvm::Function* function(llvm::Module& module, const std::string& name) {
  for (llvm::Function& f : module)
    if (f.getName().contains(name)) return &f;
  FAIL("no function " << name);
  return nullptr;
}

// Emits a load of the number of the grid that this thread's worker is at.
llvm::Value* grid_now(llvm::IRBuilder<>& ir, llvm::Function& kernel) {
  llvm::Value* worker =
      calls(*kernel.getParent(), kernel.getName().str(), "mkd_begin").at(0)->getArgOperand(0);
  return ir.CreateLoad(ir.getInt32Ty(),
                       ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), worker, offsetof(mk::Worker, grid)));
}

// Puts the call under a condition and returns a copy of it. The copy runs while *selected == number and the
// worker is at `grid`. The call itself runs otherwise.
llvm::CallInst* selectable_copy(llvm::CallInst& call, uint32_t number, uint32_t grid,
                                const uint32_t* selected) {
  llvm::IRBuilder<> ir(&call);
  llvm::Value* address = ir.CreateIntToPtr(ir.getInt64(reinterpret_cast<uint64_t>(selected)), ir.getPtrTy());
  llvm::LoadInst* now = ir.CreateLoad(ir.getInt32Ty(), address, /*isVolatile=*/true);
  llvm::Value* chosen = ir.CreateICmpEQ(now, ir.getInt32(number));
  if (grid != kAnyGrid)
    chosen = ir.CreateAnd(chosen, ir.CreateICmpEQ(grid_now(ir, *call.getFunction()), ir.getInt32(grid)));
  llvm::Instruction *then_end = nullptr, *else_end = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(chosen, &call, &then_end, &else_end);
  auto* copy = llvm::cast<llvm::CallInst>(call.clone());
  copy->insertBefore(then_end->getIterator());
  if (!call.getType()->isVoidTy()) {
    ir.SetInsertPoint(&call);
    llvm::PHINode* result = ir.CreatePHI(call.getType(), 2);
    call.replaceAllUsesWith(result);
    result->addIncoming(copy, then_end->getParent());
    result->addIncoming(&call, else_end->getParent());
  }
  call.moveBefore(else_end->getIterator());
  return copy;
}

void replace(llvm::CallInst& call, llvm::Value* by) {
  if (!call.getType()->isVoidTy()) call.replaceAllUsesWith(by);
  call.eraseFromParent();
}

}  // namespace

std::vector<llvm::CallInst*> calls(llvm::Module& module, const std::string& inside,
                                   const std::string& callee) {
  std::vector<llvm::CallInst*> found;
  for (llvm::Function& f : module) {
    if (!f.getName().contains(inside)) continue;
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& i : block)
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(&i); call && calls_name(*call, callee))
          found.push_back(call);
  }
  return found;
}

void apply_selectable(llvm::Module& module, const std::vector<std::vector<SiteEdit>>& changes,
                      const uint32_t* selected) {
  struct Target {
    llvm::CallInst* call;
    uint32_t number;
    const SiteEdit* site;
  };
  std::vector<Target> targets;  // calls of the module before any edit
  for (uint32_t i = 0; i < changes.size(); ++i)
    for (const SiteEdit& site : changes[i]) {
      CAPTURE(site.inside);
      CAPTURE(site.callee);
      const std::vector<llvm::CallInst*> found = calls(module, site.inside, site.callee);
      REQUIRE(static_cast<int>(found.size()) > std::max(site.n, 0));
      for (size_t n = 0; n < found.size(); ++n)
        if (site.n == kEvery || static_cast<size_t>(site.n) == n) targets.push_back({found[n], i + 1, &site});
    }
  for (const Target& target : targets)
    target.site->edit(*selectable_copy(*target.call, target.number, target.site->grid, selected));
}

std::function<void(llvm::Module&)> always(const SiteEdit& change) {
  static const uint32_t selected = 1;
  return [=](llvm::Module& module) { apply_selectable(module, {{change}}, &selected); };
}

void drop(llvm::CallInst& call) {
  replace(call, call.getType()->isVoidTy() ? nullptr : llvm::Constant::getNullValue(call.getType()));
}

void always_true(llvm::CallInst& call) {
  replace(call, llvm::ConstantInt::getTrue(call.getType()));
}

CallEdit add_to(unsigned argument, int by) {
  return [=](llvm::CallInst& call) {
    llvm::IRBuilder<> ir(&call);
    llvm::Value* before = call.getArgOperand(argument);
    call.setArgOperand(argument, ir.CreateAdd(before, llvm::ConstantInt::getSigned(before->getType(), by)));
  };
}

CallEdit flip(unsigned argument) {
  return [=](llvm::CallInst& call) {
    call.setArgOperand(argument, llvm::IRBuilder<>(&call).CreateXor(call.getArgOperand(argument), 1));
  };
}

CallEdit halve(unsigned argument) {
  return [=](llvm::CallInst& call) {
    call.setArgOperand(argument, llvm::IRBuilder<>(&call).CreateLShr(call.getArgOperand(argument), 1));
  };
}

void halve_result(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(call.getNextNode());
  auto* half = llvm::cast<llvm::Instruction>(ir.CreateLShr(&call, 1));
  call.replaceUsesWithIf(half, [&](const llvm::Use& use) { return use.getUser() != half; });
}

CallEdit add_to_result(int by) {
  return [=](llvm::CallInst& call) {
    llvm::IRBuilder<> ir(call.getNextNode());
    auto* sum =
        llvm::cast<llvm::Instruction>(ir.CreateAdd(&call, llvm::ConstantInt::getSigned(call.getType(), by)));
    call.replaceUsesWithIf(sum, [&](const llvm::Use& use) { return use.getUser() != sum; });
  };
}

CallEdit call_instead(const std::string& name) {
  return [=](llvm::CallInst& call) {
    call.setCalledFunction(call.getModule()->getOrInsertFunction(name, call.getFunctionType()));
  };
}

void twice(llvm::CallInst& call) {
  call.clone()->insertBefore(call.getIterator());
}

CallEdit followed_by(const std::string& callee) {
  return [=](llvm::CallInst& call) {
    llvm::IRBuilder<> ir(call.getNextNode());
    ir.CreateCall(function(*call.getModule(), callee), {call.getArgOperand(0)});
  };
}

void relax_add(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(&call);
  replace(call, add_relaxed(ir, call));
}

void release_only(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(&call);
  llvm::Value* before = call_primitive(ir, "mk_load_relaxed", call.getType(), {call.getArgOperand(0)});
  call_primitive(ir, "mk_fence_release", ir.getVoidTy(), {});
  call_primitive(ir, "mk_red_relaxed", ir.getVoidTy(), {call.getArgOperand(0), call.getArgOperand(1)});
  replace(call, before);
}

void acquire_only(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(&call);
  call_primitive(ir, "mk_load_acquire", ir.getInt32Ty(), {call.getArgOperand(0)});
  replace(call, add_relaxed(ir, call));
}

void relax_store(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(&call);
  ir.CreateAlignedStore(call.getArgOperand(1), call.getArgOperand(0), llvm::MaybeAlign(4))
      ->setAtomic(llvm::AtomicOrdering::Monotonic);
  call.eraseFromParent();
}

void fault_at_once(llvm::CallInst& call) {
  llvm::IRBuilder<> ir(&call);
  ir.CreateCall(function(*call.getModule(), "record_fault"),
                {call.getArgOperand(0), call_primitive(ir, "mk_worker", ir.getInt32Ty(), {}),
                 call.getArgOperand(1), ir.getInt32(0), call.getArgOperand(2)});
}

}  // namespace mkc::test
