#include "runtime/emulator/spoil.h"

#include <algorithm>
#include <cstring>

#include "runtime/abi/abi.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt {

void spoil(void* p, size_t bytes) {
  // The pattern is NaN as f16 and bf16 halves and as f32 words. Each byte is NaN as e4m3, because 0x7f and
  // 0xff differ only in the sign.
  constexpr unsigned char kSpoilt[] = {0xff, 0x7f, 0xff, 0x7f};
  auto* to = static_cast<unsigned char*>(p);
  if (bytes == 0) return;
  const size_t first = std::min(bytes, sizeof kSpoilt);
  std::memcpy(to, kSpoilt, first);
  for (size_t done = first; done < bytes; done *= 2) std::memcpy(to + done, to, std::min(done, bytes - done));
}

namespace emulator {

void note_barrier(Worker& worker) {
  worker.spoil.between_tasks =
      std::none_of(worker.warps.begin(), worker.warps.end(), [](const Warp& warp) { return warp.in_task; });
}

}  // namespace emulator
}  // namespace mkrt

using namespace mkrt::emulator;

extern "C" {

void mk_spoil(char* p, uint32_t bytes) noexcept {
  Fiber& fiber = self();
  SpoilState& state = fiber.worker->spoil;
  if (++fiber.spoils <= state.spoils) return;  // another thread came first
  state.spoils = fiber.spoils;
  if (state.between_tasks) mkrt::spoil(p, bytes);
}

void mk_spoil_last(char* p, uint32_t bytes) noexcept {
  if (++self().worker->spoil.readers[p] % mkrt::kConsumerWarps == 0) mkrt::spoil(p, bytes);
}
}
