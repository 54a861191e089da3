// Edits change a kernel's LLVM module before it is optimised, when every helper is still a function of its
// own. All mutants of a kernel are compiled at once. A number in this process selects the one that runs.
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

namespace mkc::test {

using CallEdit = std::function<void(llvm::CallInst&)>;

// Returns the calls of functions whose name has `callee`, in functions whose name has `inside`, in the
// module's order.
std::vector<llvm::CallInst*> calls(llvm::Module& module, const std::string& inside,
                                   const std::string& callee);

constexpr int kEvery = -1;

constexpr uint32_t kAnyGrid = ~0u;

// A site edit applies to the n-th of such calls, or to every one. `grid` limits an edit of the kernel's own
// calls to the time in which the worker runs that grid.
struct SiteEdit {
  std::string inside, callee;
  int n = 0;
  CallEdit edit;
  uint32_t grid = kAnyGrid;
};

// Applies changes[i] to each of its calls, in effect only while *selected == i + 1. Fails the test where
// there is no such call.
void apply_selectable(llvm::Module& module, const std::vector<std::vector<SiteEdit>>& changes,
                      const uint32_t* selected);
// Returns an edit of the module by one change that is always in effect.
std::function<void(llvm::Module&)> always(const SiteEdit& change);

// Removes the call. Its result becomes 0.
void drop(llvm::CallInst& call);
// Removes the call. Its result becomes true.
void always_true(llvm::CallInst& call);
// Adds `by` to the argument, or to what the call returns.
CallEdit add_to(unsigned argument, int by);
CallEdit add_to_result(int by);
// Halves the argument, or what the call returns.
CallEdit halve(unsigned argument);
void halve_result(llvm::CallInst& call);
// Flips the argument's lowest bit.
CallEdit flip(unsigned argument);
// Calls the function `name`, of the same type, instead.
CallEdit call_instead(const std::string& name);
// Makes the call twice.
void twice(llvm::CallInst& call);
// Adds a call of the function whose name has `callee`, behind the call and with its first argument.
CallEdit followed_by(const std::string& callee);
// Weakens an atomic addition: to a relaxed one, to one without acquire, to one without release.
void relax_add(llvm::CallInst& call);
void release_only(llvm::CallInst& call);
void acquire_only(llvm::CallInst& call);
// Weakens a release store to a relaxed one.
void relax_store(llvm::CallInst& call);
// Lets the thread record a fault before it calls mkd_wait's poll.
void fault_at_once(llvm::CallInst& call);

}  // namespace mkc::test
