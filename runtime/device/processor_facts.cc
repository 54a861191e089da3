#include "runtime/device/processor_facts.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/counted.h"
#include "runtime/device/processor.h"

namespace mkrt {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Registers ask(uint32_t leaf) {
  Registers r;
  __get_cpuid(leaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// Returns the registers' bytes as text, up to a zero, without spaces around it.
std::string registers_text(const std::vector<uint32_t>& registers) {
  std::string text(registers.size() * sizeof(uint32_t), '\0');
  std::memcpy(text.data(), registers.data(), text.size());
  text.resize(std::min(text.find('\0'), text.size()));
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::string brand() {
  std::vector<uint32_t> words;
  for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers r = ask(leaf);
    words.insert(words.end(), {r.a, r.b, r.c, r.d});
  }
  const std::string name = registers_text(words);
  return name.empty() ? "processor" : name;
}

std::string model() {
  const Registers vendor = ask(0), version = ask(1);
  uint32_t family = version.a >> 8 & 15, number = version.a >> 4 & 15;
  if (family == 6 || family == 15) number += (version.a >> 16 & 15) << 4;
  if (family == 15) family += version.a >> 20 & 255;
  return fmt::format("{}-{}-{}-{}", registers_text({vendor.b, vendor.d, vendor.c}), family, number,
                     version.a & 15);
}

std::vector<std::string> supported() {
  __builtin_cpu_init();
  std::vector<std::string> names;
  const auto add = [&](const char* name, bool has) {
    if (has) names.emplace_back(name);
  };
  add("avx2", __builtin_cpu_supports("avx2"));
  add("fma", __builtin_cpu_supports("fma"));
  add("f16c", __builtin_cpu_supports("f16c"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512bw", __builtin_cpu_supports("avx512bw"));
  add("avx512vl", __builtin_cpu_supports("avx512vl"));
  add("avx512vnni", __builtin_cpu_supports("avx512vnni"));
  add("avx512bf16", __builtin_cpu_supports("avx512bf16"));
  return names;
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the bytes of a cache's size as the system writes it: "32768K".
uint64_t cache_bytes_of(const std::string& text) {
  uint64_t bytes = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') bytes = bytes * 10 + static_cast<uint64_t>(c - '0');
    if (c == 'K') return bytes << 10;
    if (c == 'M') return bytes << 20;
  }
  return bytes;
}

// Finds the caches of the processors. Threads of one core count as one core.
void find_caches(ProcessorFacts& facts, const std::string& root) {
  struct LastCache {
    uint64_t bytes = 0;
    uint32_t processors = 0;
  };
  std::set<std::string> cores;
  std::map<std::string, LastCache> last;  // by the processors that share it
  for (const int cpu : facts.processors) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/", root, cpu);
    const std::string siblings = line_of(folder + "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
    std::pair<std::string, uint64_t> greatest;  // its level, of one digit, and its bytes
    std::string greatest_shared;
    for (int i = 0; i < 8; ++i) {
      const std::string cache = fmt::format("{}cache/index{}/", folder, i);
      const std::string type = line_of(cache + "type"), shared = line_of(cache + "shared_cpu_list");
      if (type != "Data" && type != "Unified") continue;
      const std::pair found(line_of(cache + "level"), cache_bytes_of(line_of(cache + "size")));
      if (shared == siblings) facts.core_cache_bytes = std::max(facts.core_cache_bytes, found.second);
      if (found > greatest) greatest = found, greatest_shared = shared;
    }
    if (greatest.second == 0) continue;
    LastCache& cache = last[greatest_shared];
    cache.bytes = greatest.second;
    ++cache.processors;
  }
  uint64_t smallest = UINT64_MAX, share = UINT64_MAX;
  for (const auto& [shared, cache] : last) {
    facts.last_cache_bytes += cache.bytes;
    smallest = std::min(smallest, cache.bytes);
    share = std::min(share, cache.bytes / std::clamp(facts.threads, 1U, cache.processors));
  }
  if (!last.empty()) facts.min_last_cache_bytes = smallest, facts.last_cache_share_bytes = share;
  facts.cores = static_cast<uint32_t>(cores.size());
}

}  // namespace

ProcessorFacts ask_processor(const std::string& root) {
  ProcessorFacts facts;
  facts.name = brand();
  facts.model = model();
  facts.supported = supported();
  facts.target = processor_target();
  facts.processors = usable_processors();
  std::ranges::sort(facts.processors);
  facts.limits = container_limits(root);
  facts.threads = threads_within(static_cast<uint32_t>(facts.processors.size()), facts.limits);
  facts.memory_bytes = memory_within(facts.limits);
  facts.machine_bytes = memory_within({});
  find_caches(facts, root);
  return facts;
}

std::string processors_text(const ProcessorFacts& facts) {
  const std::string ranges = ranges_text(facts.processors);
  return facts.threads == facts.processors.size()
             ? ranges
             : fmt::format("{} by {}", ranges, counted(facts.threads, "thread"));
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace mkrt
