#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"

namespace mkc {
namespace {

llvm::Value* embed_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::EmbedArgs;
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, tokens), "tokens");
  f.set_operand(offsetof(A, table), "table");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set(offsetof(A, vocab), f.extent(f.tensor("table"), 0));
  f.set(offsetof(A, cols), f.extent(f.tensor("table"), 1));
  return f.base;
}

void embed_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call(typed("mkb_embed", call, "table").c_str(), {call.worker, t.arguments, t.coords[0]});
}

}  // namespace

const BodyCode kEmbedCode = {.arguments = embed_arguments, .task = embed_task};

}  // namespace mkc
