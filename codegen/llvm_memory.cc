#include "codegen/llvm_memory.h"

#include <llvm/Support/ErrorHandling.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <string_view>

#include "runtime/base/temporaries.h"

namespace mkc {
namespace {

[[noreturn]] void end_without_memory() {
  constexpr std::string_view kMessage = "mkc: error: out of memory\n";
  mkrt::remove_temporaries_at_end();
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(1);
}

std::mutex count_mutex;
int living_count = 0;
std::new_handler handler_before = nullptr;

}  // namespace

LlvmMemory::LlvmMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { end_without_memory(); });
  });
  const std::lock_guard lock(count_mutex);
  if (living_count++ == 0) handler_before = std::set_new_handler(end_without_memory);
}

LlvmMemory::~LlvmMemory() {
  const std::lock_guard lock(count_mutex);
  if (--living_count == 0) std::set_new_handler(handler_before);
}

}  // namespace mkc
