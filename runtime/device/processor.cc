#include "runtime/device/processor.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>

namespace mkrt {

namespace {

constexpr const char* kAmx = "x86-64-amx";
constexpr long kKnownFeatures = 0x1021,
               kRequestPermission = 0x1023;  // ARCH_GET_XCOMP_SUPP, ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;               // XFEATURE_XTILEDATA

// Tells whether the processor has AMX with BF16 and INT8 (Intel SDM, volume 2, "CPUID", leaf 7), and whether
// the system knows its tiles. Linux does since 5.16.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBits = 1u << 22 | 1u << 24 | 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBits) != kBits) return false;
  uint64_t known = 0;
  return syscall(SYS_arch_prctl, kKnownFeatures, &known) == 0 && (known >> kTileData & 1) != 0;
}

}  // namespace

std::vector<std::string> processor_targets() {
  __builtin_cpu_init();
  std::vector<std::string> targets;
  const bool avx512 = __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
  const bool v4 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
  if (v4 && has_amx()) targets.emplace_back(kAmx);
  if (v4) targets.emplace_back("x86-64-v4");
  if (avx512) targets.emplace_back("x86-64-avx512");
  if (__builtin_cpu_supports("x86-64-v3")) targets.emplace_back("x86-64-v3");
  return targets;
}

Status use_target(const std::string& target) {
  if (target != kAmx || syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  const int error = errno;
  return Error{
      fmt::format("cpu: error: the system refuses the tiles of {}: {}{}", kAmx, std::strerror(error),
                  error == ENOSPC ? "; some thread's alternate signal stack is too small for them" : ""),
      ErrorKind::kNoDevice};
}

std::string processor_target() {
  for (const std::string& target : processor_targets())
    if (use_target(target).ok()) return target;
  return "";
}

std::vector<int> usable_processors() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  std::vector<int> first, others;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return {0};
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    const bool known = static_cast<bool>(std::getline(file, siblings));
    (!known || cores.insert(siblings).second ? first : others).push_back(cpu);
  }
  std::ranges::copy(others, std::back_inserter(first));
  return first;
}

float measure_ns_per_tick(const std::function<uint64_t()>& ticks, const std::function<uint64_t()>& ns) {
  // The clock was read at most `unsure` ticks before or after `tick`.
  struct Reading {
    uint64_t ns, tick, unsure;
  };
  const auto read = [&] {
    const uint64_t before = ticks();
    const uint64_t now = ns();
    const uint64_t between = (ticks() - before) / 2;
    return Reading{now, before + between, between};
  };
  const auto surer = [](const Reading& a, const Reading& b) { return a.unsure < b.unsure; };
  const Reading begin = std::min({read(), read(), read(), read()}, surer);
  for (;;) {
    const Reading end = read();
    const uint64_t spent = end.tick - begin.tick;
    if (end.ns - begin.ns >= 5'000'000 && (begin.unsure + end.unsure) * 100 <= spent)
      return static_cast<float>(static_cast<double>(end.ns - begin.ns) / static_cast<double>(spent));
  }
}

float ns_per_tick() {
  static const float ratio =
      measure_ns_per_tick([] { return __rdtsc(); },
                          [] {
                            const auto now = std::chrono::steady_clock::now().time_since_epoch();
                            return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
                          });
  return ratio;
}

}  // namespace mkrt
