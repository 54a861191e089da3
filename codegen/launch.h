// Every kernel begins with the same code: values of the launch, lists of the step, roles of a worker's
// threads.
#pragma once

#include <functional>

#include "codegen/bodies.h"
#include "codegen/emit.h"
#include "codegen/lists.h"
#include "codegen/targets.h"

namespace mkc {

// LaunchValues has values that all code of a kernel refers to, loaded at the kernel's start.
struct LaunchValues {
  Bases bases{};
  llvm::Value* worker = nullptr;        // mk::Worker of this thread
  llvm::Value* worker_index = nullptr;  // index among all workers
  llvm::Value* arenas = nullptr;        // mk::Arenas of the worker
  llvm::Value* symbols = nullptr;       // int32[]: symbols of the step that this thread's role has reached
};

// LaunchCode emits at the insertion point of a kernel that has begun. load() fills `launch`.
class LaunchCode {
 public:
  LaunchCode(Emitter& e, const Schedule& schedule, const StepLists& lists, const Engines& engines,
             LaunchValues& launch);

  // Runs on all threads. Makes the worker and loads the values that are fixed for the launch. Without a
  // loader, the kernel's last parameter is the worker's mkrt::MkThread.
  void load(llvm::Value* session, llvm::Value* step);

  // Loads the symbols and the arenas' addresses again. The loaded values, and values computed from them,
  // occupy registers only until the next call.
  void load_values();

  // Runs `consume` on the consumer threads, after they have made the step's lists. Runs `load` on the loader
  // warp. The two roles end in the kernel's return.
  void by_role(const std::function<void()>& consume, const std::function<void()>& load);
  // Runs the two roles for each step of the launch. `around(steps)` emits each role's code before and after
  // all steps, and calls steps() between.
  using Body = std::function<void()>;
  void each_step_by_role(const std::function<void(const Body& steps)>& around, const Body& consume,
                         const Body& load);

  // Returns the arguments of mkd_next_step and mkd_leave_next_step.
  std::vector<llvm::Value*> next_step();

  // Loader only. in_step() emits code that needs the step to have begun. with_lists() emits code that needs
  // the kernel's `number`-th lists. The code does not run if the launch is over or has a fault.
  void in_step(const std::function<void()>& body);
  void with_lists(llvm::Value* number, const std::function<void()>& body);

 private:
  llvm::Value* place_of(SymbolId symbol);  // index in MkStep::symbol
  // Emits `do body(); while (next(arguments));`.
  void each_step(const char* next, const std::vector<llvm::Value*>& arguments,
                 const std::function<void()>& body);
  void split(const std::function<void()>& consume, const std::function<void()>& load);
  // Runs on consumer threads. Loads the step's lists to shared memory, sizes partials, cuts rows into blocks,
  // and finds the first task of each row of ragged grids.
  void make_lists();
  void sum_rows(const RaggedRows& ragged);
  void size_partials(const RowBlocks& blocks);
  void cut_rows(const RowBlocks& blocks);

  Emitter& e_;
  const Schedule& s_;
  const StepLists& lists_;
  const Engines engines_;
  LaunchValues& launch_;
};

}  // namespace mkc
