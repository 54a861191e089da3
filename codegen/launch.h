// What every kernel's code begins with: the launch's values, the step's lists, the roles of a worker's
// threads.
#pragma once

#include <functional>

#include "codegen/bodies.h"
#include "codegen/emit.h"
#include "codegen/lists.h"
#include "codegen/targets.h"

namespace mkc {

// What all code of a kernel refers to, loaded at its start.
struct LaunchValues {
  Bases bases{};
  llvm::Value* worker = nullptr;        // mk::Worker of this thread
  llvm::Value* worker_index = nullptr;  // of all workers
  llvm::Value* arenas = nullptr;        // mk::Arenas of the worker
  llvm::Value* symbols = nullptr;       // int32[]: of the step that this thread's role is at
};

// Emits at the insertion point of a kernel that has begun. `launch` holds what `load` found from then on.
class LaunchCode {
 public:
  LaunchCode(Emitter& e, const Schedule& schedule, const StepLists& lists, const Engines& engines,
             LaunchValues& launch);

  // All threads: makes the worker and loads what is fixed for the launch.
  void load(llvm::Value* session, llvm::Value* step);

  // Reads symbols and the arenas' addresses anew, from shared memory: they, and what is computed from them,
  // then live in registers up to the next call only.
  void load_values();

  // Sends consumer threads through one, with the step's lists made, the loader warp through the other;
  // both end in the kernel's return.
  void by_role(const std::function<void()>& consume, const std::function<void()>& load);
  // The same, for each step of the launch. `around(steps)` emits what each role does before and behind them.
  using Body = std::function<void()>;
  void each_step_by_role(const std::function<void(const Body& steps)>& around, const Body& consume,
                         const Body& load);

  // Arguments of what goes from one step to the next.
  std::vector<llvm::Value*> next_step();

  // The loader: emits what needs the step to have begun, or the lists that are the kernel's `number`-th.
  void in_step(const std::function<void()>& body);
  void with_lists(llvm::Value* number, const std::function<void()>& body);

 private:
  llvm::Value* place_of(const char* symbol);  // in MkStep::symbol
  // do body(); while (next(arguments));
  void each_step(const char* next, std::vector<llvm::Value*> arguments, const std::function<void()>& body);
  void split(const std::function<void()>& consume, const std::function<void()>& load);
  // Consumer threads: brings the step's lists to shared memory, sizes parts, cuts rows into blocks, and
  // finds where the rows of ragged grids begin.
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
