#include "tools/doctor/processor_loop_rates.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/abi/packing.h"

namespace mkc {
namespace {

constexpr uint32_t kProductStrips = ProcessorLoops::kStrips, kProductColumns = 1024;  // of a product's call
constexpr uint32_t kHeads = 8;  // of the cache that attention reads
// Offsets in a thread's own memory: weights, rows of x, sums, keys, values, and the memory of attention.
constexpr uint64_t kX = 1 << 18, kSums = kX + (5 << 17), kKeys = kSums + (1 << 16),
                   kValues = kKeys + (1 << 17), kMemory = kValues + (1 << 17);
static_assert(kProductStrips * 16 * kProductColumns * sizeof(float) <= kX &&
              kX + ProcessorLoops::kMany * (kProductColumns + 64) * sizeof(float) +
                      ProcessorLoops::kUnpackedBytes <=
                  kSums &&
              kProductStrips * 16 * ProcessorLoops::kMany * sizeof(float) <= kKeys - kSums &&
              kMemory + ProcessorLoops::kAttendBytes <= ProcessorBench::kOwnBytes);

constexpr uint64_t kPagePositions = ProcessorLoops::kAttendPositions / ProcessorLoops::kAttendPages;
using Pages = std::array<uint32_t, ProcessorLoops::kAttendPages>;

float* sums_of(char* own) {
  return reinterpret_cast<float*>(own + kSums);
}
uint64_t row_bytes(mkrt::WeightType type) {
  return ProcessorLoops::kAttendColumns * mkrt::weight_format(type).bits / 8;
}
uint64_t call_bytes(mkrt::WeightType type) {
  return kProductStrips * mkrt::packed_shape(mkrt::kStripRows, kProductColumns, type).strip_bytes;
}

// A thread's own memory comes first. The memory that its loops read follows.
struct Streamed {
  const char* begin;
  uint64_t bytes;
};
Streamed part_of(const ProcessorBench& bench, uint32_t thread) {
  const uint64_t own = bench.threads() * ProcessorBench::kOwnBytes;
  const uint64_t bytes = (bench.bytes() - std::min(bench.bytes(), own)) / bench.threads() / 64 * 64;
  return {bench.memory() + own + thread * bytes, bytes};
}

// Walk is where a thread is in its part of the memory: which group of pages of which head comes next. A page
// has the positions of a head together, and the loop takes the part of a head as a page of its own.
struct Walk {
  std::vector<uint32_t> pages;
  uint32_t next = 0, head = 0;

  Pages take() {
    Pages taken;
    if (next + taken.size() > pages.size()) next = 0, head = (head + 1) % kHeads;
    std::transform(pages.begin() + next, pages.begin() + next + taken.size(), taken.begin(),
                   [&](uint32_t page) { return page * kHeads + head; });
    next += static_cast<uint32_t>(taken.size());
    return taken;
  }
};

}  // namespace

Spread cached_product(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                      ProcessorLoops::Tokens tokens) {
  return bench.rate(bench.threads(), [&](uint32_t i) {
    char* own = bench.own(i);
    return loops.product(type, tokens, kProductStrips, kProductColumns, own, own + kX, sums_of(own));
  });
}

Spread cached_attention(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                        bool group) {
  Pages pages;
  std::iota(pages.begin(), pages.end(), 0);
  return bench.rate(bench.threads(), [&](uint32_t i) {
    char* own = bench.own(i);
    return loops.attend(type, group, own + kKeys, own + kValues, row_bytes(type), pages.data(),
                        own + kMemory);
  });
}

Spread streamed_product(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                        ProcessorLoops::Tokens tokens) {
  std::vector<uint64_t> at(bench.threads(), 0);
  const uint64_t call = call_bytes(type);
  return bench.rate(bench.threads(), [&](uint32_t i) {
    const Streamed part = part_of(bench, i);
    if (part.bytes < call) return uint64_t{0};
    if (at[i] + call > part.bytes) at[i] = 0;
    char* own = bench.own(i);
    const uint64_t done = loops.product(type, tokens, kProductStrips, kProductColumns, part.begin + at[i],
                                        own + kX, sums_of(own));
    at[i] += call;
    return done;
  });
}

Spread streamed_attention(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                          bool group) {
  const uint64_t page_bytes = kPagePositions * kHeads * row_bytes(type);
  std::vector<Walk> walks(bench.threads());
  std::mt19937 random(1);
  for (uint32_t i = 0; i < bench.threads(); ++i) {
    walks[i].pages.resize(part_of(bench, i).bytes / 2 / page_bytes);
    std::iota(walks[i].pages.begin(), walks[i].pages.end(), 0);
    std::ranges::shuffle(walks[i].pages, random);
  }
  return bench.rate(bench.threads(), [&](uint32_t i) {
    Walk& walk = walks[i];
    if (walk.pages.size() < ProcessorLoops::kAttendPages) return uint64_t{0};
    const Pages pages = walk.take();
    const char *keys = part_of(bench, i).begin, *values = keys + walk.pages.size() * page_bytes;
    return loops.attend(type, group, keys, values, row_bytes(type), pages.data(), bench.own(i) + kMemory);
  });
}

}  // namespace mkc
