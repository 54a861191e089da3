// Changes of a kernel's LLVM module before it is optimised, when every helper is still a function of its own.
// All mutants of a kernel are compiled at once; a number in this process selects the one that runs.
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

namespace mkc::test {

using CallEdit = std::function<void(llvm::CallInst&)>;

// Calls of functions whose name has `callee`, in functions whose name has `inside`, in the module's order.
std::vector<llvm::CallInst*> calls(llvm::Module& module, const std::string& inside,
                                   const std::string& callee);

constexpr int kEvery = -1;

constexpr uint32_t kAnyGrid = ~0u;

// What to do to the n-th of such calls, or to every one; of a call in the kernel, while its worker runs
// `grid`.
struct SiteEdit {
  std::string inside, callee;
  int n = 0;
  CallEdit edit;
  uint32_t grid = kAnyGrid;
};

// Applies changes[i] to each of its calls, in effect only while *selected == i + 1.
// Fails the test where there is no such call.
void apply_selectable(llvm::Module& module, const std::vector<std::vector<SiteEdit>>& changes,
                      const uint32_t* selected);
// One change, always in effect.
std::function<void(llvm::Module&)> always(const SiteEdit& change);

// The call has no effect; a result is 0.
void drop(llvm::CallInst& call);
// The call has no effect but the result true.
void always_true(llvm::CallInst& call);
// The argument, or what the call returns, becomes larger by `by`.
CallEdit add_to(unsigned argument, int by);
CallEdit add_to_result(int by);
// The argument, or what the call returns, is half as much.
CallEdit halve(unsigned argument);
void halve_result(llvm::CallInst& call);
// The argument's lowest bit is the other one.
CallEdit flip(unsigned argument);
// The other function, of the same type, is called instead.
CallEdit call_instead(const std::string& name);
// The call happens twice.
void twice(llvm::CallInst& call);
// After the call, the function whose name has `callee` is called with its first argument.
CallEdit followed_by(const std::string& callee);
// What an atomic addition is without release and acquire, without acquire, without release.
void relax_add(llvm::CallInst& call);
void release_only(llvm::CallInst& call);
void acquire_only(llvm::CallInst& call);
// A store without release.
void relax_store(llvm::CallInst& call);
// Where the call of mkd_wait's poll is, its thread records a fault first.
void fault_at_once(llvm::CallInst& call);

}  // namespace mkc::test
