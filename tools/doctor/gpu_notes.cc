#include "tools/doctor/gpu_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/assembler.h"

namespace mkc {
namespace {

constexpr uint32_t kPtxDriver = 12080;  // CUDA version of the PTX that mkc writes, as the driver counts
constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr double kSlowOpening = 2;   // seconds
constexpr double kSlowClock = 0.75;  // share of the largest clock
constexpr uint32_t kProhibited = 2, kExclusive = 3;

std::string cuda_version(uint32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string note_on_version(const mkrt::DeviceFacts& facts, const std::string& assembler) {
  if (facts.driver == 0) return "";
  if (assembler.empty())
    return facts.driver >= kPtxDriver
               ? ""
               : fmt::format("the driver supports CUDA {}, expected {} or newer to compile PTX of mkc",
                             cuda_version(facts.driver), cuda_version(kPtxDriver));
  return why_not_loaded(assembler, facts.driver);
}

std::string note_on_mode(const mkrt::DeviceFacts& facts) {
  if (facts.compute_mode == kProhibited)
    return "compute mode is prohibited, expected default: no process may use the GPU (nvidia-smi -c 0)";
  if (facts.compute_mode == kExclusive)
    return "compute mode is exclusive process, expected default: a second process is refused (nvidia-smi -c "
           "0)";
  return "";
}

std::string note_on_memory(const mkrt::DeviceFacts& facts, uint64_t free_bytes) {
  const uint64_t used = facts.memory_bytes - std::min(free_bytes, facts.memory_bytes);
  if (free_bytes == 0 || used <= std::max(2 * kGib, facts.memory_bytes / 10)) return "";
  return fmt::format(
      "{} MB of {} MB are free, expected nearly all: other processes hold memory and may take time, too",
      free_bytes >> 20, facts.memory_bytes >> 20);
}

std::string note_on_clock(const mkrt::DeviceFacts& facts, const CheckReport& checked) {
  const double clock = checked.measured.is_null() ? 0 : checked.measured.value("clock_mhz", 0.0);
  if (clock <= 0 || clock >= kSlowClock * facts.clock_mhz) return "";
  return fmt::format(
      "the clock is {:.0f} MHz after the reads, expected near {:.0f}: clocks are locked or throttled, and "
      "figures are of that clock (nvidia-smi -q -d CLOCK,PERFORMANCE)",
      clock, facts.clock_mhz);
}

}  // namespace

std::vector<std::string> gpu_notes(const mkrt::DeviceFacts& facts, const std::string& assembler,
                                   const CheckReport* checked) {
  std::vector<std::string> notes{note_on_version(facts, assembler), note_on_mode(facts)};
  if (facts.name.find(" MIG ") != std::string::npos)
    notes.push_back(fmt::format("this is a MIG slice with {} SMs: figures are the slice's", facts.sms));
  if (facts.time_limit)
    notes.emplace_back("a display uses the GPU, expected none: the driver ends kernels that take seconds");
  if (checked) {
    notes.push_back(note_on_memory(facts, checked->free_bytes));
    notes.push_back(note_on_clock(facts, *checked));
    if (checked->first_open_seconds > kSlowOpening)
      notes.push_back(
          fmt::format("opening the GPU took {:.1f} s, expected less than {}: persistence mode may be off "
                      "(nvidia-smi -pm 1)",
                      checked->first_open_seconds, kSlowOpening));
  }
  std::erase(notes, "");
  return notes;
}

}  // namespace mkc
