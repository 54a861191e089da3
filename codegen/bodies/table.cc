#include <fmt/format.h>

#include "codegen/bodies/code.h"
#include "codegen/operands.h"

namespace mkc {
namespace {

const TaskGrid& grid_of(const BodyCall& call) {
  return call.schedule.program.grids[call.grid];
}

const BodyCode& code_of(const BodyCall& call) {
  // The table is in the order of BodyKind.
  static constexpr const BodyCode* kCodes[] = {
      &kEmbedCode,        &kProductCode, &kAppendCode,  &kAttendCode,    &kCombineCode,
      &kSampleCode,       &kRouteCode,   &kExpertCode,  &kExpertSumCode, &kSplitKPartialCode,
      &kSplitKReduceCode, &kRowCode,     &kQuantizeCode};
  static_assert(std::size(kCodes) == std::size(kBodyKinds));
  return *kCodes[static_cast<size_t>(grid_of(call).body)];
}

}  // namespace

std::string typed(std::string_view name, const BodyCall& call, std::string_view role, bool written) {
  const DType dtype = operand_tensor(call.schedule.program, grid_of(call), role, written).dtype;
  return fmt::format("{}_{}", name, dtype_name(dtype));
}

llvm::Value* emit_arguments(Emitter& e, const BodyCall& call) {
  return code_of(call).arguments(e, call);
}

void emit_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  if (const auto epilogue = code_of(call).epilogue) epilogue(e, call, arguments);
}

void emit_rows(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  if (const auto rows = code_of(call).rows) rows(e, call, arguments);
}

void emit_segment_start(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  if (const auto start = code_of(call).segment_start) start(e, call, arguments);
}

void emit_load(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords) {
  if (const auto load = code_of(call).load) load(e, call, {arguments, coords, nullptr, nullptr});
}

void emit_task(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords, llvm::Value* task, llvm::Value* count) {
  code_of(call).task(e, call, {arguments, coords, task, count});
}

}  // namespace mkc
