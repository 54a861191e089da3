// Runs work in a process of its own, so that a crash or a hang is an outcome like others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mkc::test {

struct ApartResult {
  enum class End : uint8_t { kReturned, kCrashed, kLate };
  End end = End::kReturned;
  std::string text;  // kReturned: what the work returned; else "signal 11" or "exit status 3"
};

// Runs `work` in a child of this process. The work may take `seconds` of processor time, so that a busy
// machine changes nothing. Work that waits for ever is ended after 20 times as long.
ApartResult run_apart(const std::function<std::string()>& work, uint32_t seconds);

}  // namespace mkc::test
