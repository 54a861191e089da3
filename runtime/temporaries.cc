#include "runtime/temporaries.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

namespace mkrt {
namespace {

enum State { kFree, kTaken, kNoted };

// Handlers of signals may neither lock nor allocate.
struct Slot {
  std::atomic<int> state = kFree;
  char path[4096];
};
std::array<Slot, 64> slots;
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

Temporary::Temporary(const std::string& path) : slot_(-1) {
  if (path.size() >= sizeof(Slot::path)) return;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = kFree;
    if (!slots[i].state.compare_exchange_strong(free, kTaken)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state = kNoted;
    slot_ = static_cast<int>(i);
    return;
  }
}

Temporary::~Temporary() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].state = kFree;
}

void remove_temporaries() {
  for (size_t i = slots.size(); i-- > 0;)
    if (slots[i].state == kNoted && unlink(slots[i].path) != 0) rmdir(slots[i].path);
}

}  // namespace mkrt
