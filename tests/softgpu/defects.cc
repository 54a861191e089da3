#include "tests/softgpu/defects.h"

#include "tests/softgpu/machine.h"

namespace softgpu {
namespace {

Flow skip(Warp&, const Instruction&, uint32_t) {
  return Flow::kNext;
}

Flow wait_for_ever(Warp& w, const Instruction&, uint32_t) {
  w.machine().sleep(w, 40);
  return Flow::kRetry;
}

// Executes the instruction as intended and flips a bit of its first result in each lane.
Flow give_another_result(Warp& w, const Instruction& i, uint32_t lanes) {
  const Flow flow = i.intact(w, i, lanes);
  const Operand& result = w.operand(i, 0);
  if (result.bytes == 0) {
    *w.at<uint32_t>(result) ^= lanes;
    return flow;
  }
  each_lane(lanes, [&](uint32_t l) { w.at<uint8_t>(result)[l * result.bytes + result.bytes / 2] ^= 0x40; });
  return flow;
}

Order without_acquire(Order o) {
  return o == Order::kAcqRel ? Order::kRelease : o == Order::kAcquire ? Order::kRelaxed : o;
}
Order without_release(Order o) {
  return o == Order::kAcqRel ? Order::kAcquire : o == Order::kRelease ? Order::kRelaxed : o;
}

}  // namespace

bool is_defect(const std::string& defect) {
  return defect.empty() || defect == "acquire" || defect == "release" || begins_form(defect);
}

void break_instructions(Module& module, const std::string& defect) {
  if (defect.empty()) return;
  for (auto& [name, kernel] : module.kernels)
    for (Instruction& i : kernel.code) {
      if (defect == "acquire") i.order = without_acquire(i.order);
      if (defect == "release") i.order = without_release(i.order);
      if (i.kind != Kind::kPlain || !i.name->starts_with(defect)) continue;
      i.intact = i.execute;
      // No kernel reads the state that it returns
      const bool unread = i.name->starts_with("mbarrier.arrive");
      i.execute = i.name->starts_with("setmaxnreg") ? wait_for_ever
                  : i.results > 0 && !unread        ? give_another_result
                                                    : skip;
    }
}

}  // namespace softgpu
