#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"
#include "ir/tasks.h"

namespace mkc {
namespace {

llvm::Value* sample_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::SampleArgs;
  static_assert(mkrt::kMaxVocab == kMaxSampled);
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, best_value), "best_value");
  f.set_operand(offsetof(A, best_index), "best_index");
  f.set_operand(offsetof(A, next), "next", true);
  f.set(offsetof(A, samples), e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, samples)));
  f.set(offsetof(A, launch_request), e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, launch_request)));
  const StepSymbols step = f.symbols();
  f.set_list(offsetof(A, first_row), step.first_row);
  f.set_list(offsetof(A, rows), step.q_len);
  f.set(offsetof(A, logit_rows), e.value(f.tensor("logits").shape[0]));
  f.set(offsetof(A, tokens), e.value(symbol(step.tokens)));
  f.set(offsetof(A, vocab), f.extent(f.tensor("logits"), 1));
  return f.base;
}

void sample_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_sample", {call.worker, t.arguments, t.coords[0]});
}

}  // namespace

const BodyCode kSampleCode = {.arguments = sample_arguments, .task = sample_task};

}  // namespace mkc
