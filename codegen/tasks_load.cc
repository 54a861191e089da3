// The loader's generated code brings streamed operands of a grid's tasks through the ring.
#include <algorithm>
#include <cstddef>

#include "codegen/tasks.h"
#include "runtime/abi/abi.h"
#include "runtime/abi/packing.h"

namespace mkc {

const Access* TaskCode::streamed(GridId id) const {
  for (const Access& access : grid(id).reads)
    if (access.stream) return &access;
  return nullptr;
}

bool TaskCode::streams(GridId id) const {
  return streamed(id) != nullptr;
}

mkrt::WeightType TaskCode::streamed_type(GridId id) const {
  return weight_type(s_.program.tensors[streamed(id)->tensor]);
}

bool TaskCode::loads_by_lists(GridId id) const {
  return streams(id) && grid(id).body == BodyKind::kAttend;
}

bool TaskCode::loads_in_step(GridId id) const {
  return claims(id) || loads_by_lists(id) ||
         std::any_of(grid(id).waits.begin(), grid(id).waits.end(), [](const Wait& w) { return w.lookup; });
}

TaskCode::Load TaskCode::experts_loader(const BodyCall& call) {
  llvm::Value *weights = operand_address(e_, call, streamed(call.grid)->role),
              *arguments = emit_arguments(e_, call),
              *type = e_.constant(static_cast<uint32_t>(streamed_type(call.grid)));
  llvm::Value* active_experts = e_.value(grid(call.grid).coords[1].extent);
  return [this, weights, arguments, active_experts, type](llvm::Value* first, llvm::Value* count) {
    e_.call(engines_.bulk_copy ? "mkd_stream_experts_bulk" : "mkd_stream_experts_async",
            {launch_.worker, weights, arguments, active_experts, type, first, count});
  };
}

TaskCode::Load TaskCode::strips_loader(const BodyCall& call) {
  llvm::Value *weights = operand_address(e_, call, streamed(call.grid)->role),
              *arguments = emit_arguments(e_, call),
              *type = e_.constant(static_cast<uint32_t>(streamed_type(call.grid)));
  return [this, weights, arguments, type](llvm::Value* first, llvm::Value* count) {
    e_.call(engines_.bulk_copy ? "mkd_stream_bulk" : "mkd_stream_async",
            {launch_.worker, weights, arguments, type, first, count});
  };
}

TaskCode::Load TaskCode::cache_loader(const BodyCall& call) {
  llvm::Value* arguments = emit_arguments(e_, call);
  return [this, call, arguments](llvm::Value* first, llvm::Value* count) {
    e_.loop(first, e_.ir.CreateAdd(first, count),
            [&](llvm::Value* task) { emit_load(e_, call, arguments, coords_of(call.grid, task)); });
  };
}

TaskCode::Load TaskCode::loader(const BodyCall& call) {
  switch (grid(call.grid).body) {
    case BodyKind::kAttend:
      return cache_loader(call);
    case BodyKind::kExpert:
      return experts_loader(call);
    default:
      return strips_loader(call);
  }
}

void TaskCode::load_segment(GridId id, llvm::Value* record, llvm::Value* segment) {
  const BodyCall call = body_call(id, record);
  look_up(id, record, "mkd_loader_look_up");
  const Load bring = loader(call);
  const Load load = [&](llvm::Value* first, llvm::Value* count) {
    llvm::Value* number = e_.load32(record, offsetof(mkrt::MkGrid, id));
    e_.call("mkd_load_begin", {launch_.worker, number, first, count});
    bring(first, count);
    e_.call("mkd_load_end", {launch_.worker, number, e_.ir.CreateAdd(first, count)});
  };
  if (!claims(id)) {
    const Share tasks = share(id, record, segment);
    load(tasks.first, e_.ir.CreateSub(tasks.last, tasks.first));
    return;
  }
  llvm::Value* tickets = e_.load32(record, offsetof(mkrt::MkGrid, tickets));
  const bool handed_back = placement(id) == PlacementKind::kReady;
  const auto next = [&] {
    return e_.call(handed_back ? "mkd_next_handed_back" : "mkd_hand_over", e_.ir.getInt32Ty(),
                   handed_back ? std::vector{launch_.worker} : std::vector{launch_.worker, tickets});
  };
  e_.claim_loop(next, tasks_of(id, record),
                [&](llvm::Value* task, llvm::Value*) { load(task, e_.constant(1)); });
}

}  // namespace mkc
