#include "runtime/device/container_limits.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/device/processor_facts.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

// Root stands for the system's files.
class Root {
 public:
  explicit Root(const std::string& groups) { put("/proc/self/cgroup", groups); }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = name() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string name() const { return dir_.path; }

 private:
  test::TempDir dir_;
};

TEST_CASE("the smallest limit of version 2's groups holds, from the process's own to the mount") {
  Root root("0::/pod/box");
  root.put("/sys/fs/cgroup/memory.max", "max");
  root.put("/sys/fs/cgroup/pod/memory.max", "536870912");
  root.put("/sys/fs/cgroup/pod/box/memory.max", "1073741824");
  root.put("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000");
  root.put("/sys/fs/cgroup/pod/cpu.max", "max 100000");
  const ContainerLimits limits = container_limits(root.name());
  CHECK(limits.memory_bytes == 536870912);
  CHECK(limits.memory_file == root.name() + "/sys/fs/cgroup/pod/memory.max");
  CHECK(limits.processors == 1.5);
  CHECK(limits.processors_file == root.name() + "/sys/fs/cgroup/pod/box/cpu.max");
}

TEST_CASE("a container that sees its own group as the mount has that group's limits") {
  Root root("0::/docker/0123");
  root.put("/sys/fs/cgroup/memory.max", "268435456");
  root.put("/sys/fs/cgroup/cpu.max", "20000 100000");
  const ContainerLimits limits = container_limits(root.name());
  CHECK(limits.memory_bytes == 268435456);
  CHECK(limits.processors == 0.2);
}

TEST_CASE("version 1 has a mount for each controller, or for several of them") {
  Root root("4:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/box\n0::/");
  root.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  root.put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "134217728");
  root.put("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000");
  root.put("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  const ContainerLimits limits = container_limits(root.name());
  CHECK(limits.memory_bytes == 134217728);
  CHECK(limits.processors == 2.5);
}

TEST_CASE("files that are missing or of another form set no limit") {
  Root root("0::/../..\nnot a group\n");
  for (const char* text : {"", "max", "1e9", "-1", "0", "99999999999999999999999"}) {
    root.put("/sys/fs/cgroup/memory.max", text);
    root.put("/sys/fs/cgroup/cpu.max", std::string(text) + " 100000");
    CHECK(container_limits(root.name()).memory_bytes == 0);
    CHECK(container_limits(root.name()).processors == 0);
  }
  CHECK(container_limits("/nowhere").memory_bytes == 0);
}

TEST_CASE("a limit that is no regular file is not opened") {
  Root root("0::/");
  root.put("/sys/fs/cgroup/cpu.max", "50000 100000");
  const std::string pipe = root.name() + "/sys/fs/cgroup/memory.max";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(container_limits(root.name()).memory_bytes == 0);
  CHECK(container_limits(root.name()).processors == 0.5);
}

TEST_CASE("a limit below the time of all processors is a quota, also where it rounds up to all of them") {
  ContainerLimits limits;
  CHECK_FALSE(has_quota(2, limits));
  limits.processors = 1.5;
  CHECK(has_quota(2, limits));
  CHECK(threads_within(2, limits) == 2);
  CHECK_FALSE(has_quota(1, limits));
}

TEST_CASE("the smallest last-level cache, and the least share of a thread, are found") {
  Root root("0::/");
  const std::vector<int> all = ask_processor().processors;
  const size_t first = (all.size() + 1) / 2;  // processors that share the first cache
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string cache = fmt::format("/sys/devices/system/cpu/cpu{}/cache/index0/", all[i]);
    root.put(cache + "type", "Unified");
    root.put(cache + "level", "3");
    root.put(cache + "size", i < first ? "32768K" : "16384K");
    root.put(cache + "shared_cpu_list", i < first ? "first" : "second");
  }
  const ProcessorFacts facts = ask_processor(root.name());
  const bool has_second = all.size() > first;
  const uint64_t large = uint64_t{32} << 20, small = uint64_t{16} << 20;
  CHECK(facts.last_cache_bytes == large + (has_second ? small : 0));
  CHECK(facts.min_last_cache_bytes == (has_second ? small : large));
  CHECK(facts.last_cache_share_bytes ==
        std::min(large / first, has_second ? small / (all.size() - first) : large));
}

TEST_CASE("threads are a limit of processor time, rounded up, and at most the processors") {
  ContainerLimits limits;
  CHECK(threads_within(8, limits) == 8);
  limits.processors = 1.5;
  CHECK(threads_within(8, limits) == 2);
  CHECK(threads_within(1, limits) == 1);
  limits.processors = 0.2;
  CHECK(threads_within(8, limits) == 1);
  limits.processors = 12;
  CHECK(threads_within(8, limits) == 8);
}

TEST_CASE("the facts of the processor are those within the limits, and unknown caches have no size") {
  Root root("0::/");
  root.put("/sys/fs/cgroup/memory.max", "104857600");
  root.put("/sys/fs/cgroup/cpu.max", "50000 100000");
  const ProcessorFacts facts = ask_processor(root.name());
  CHECK(facts.memory_bytes == 104857600);
  CHECK(facts.threads == 1);
  CHECK(facts.core_cache_bytes == 0);
  if (facts.processors.size() > 1)
    CHECK(processors_text(facts) == ranges_text(facts.processors) + " by 1 thread");
}

}  // namespace
}  // namespace mkrt
