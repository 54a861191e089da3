#include "codegen/assembler.h"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "runtime/base/environment.h"
#include "runtime/base/temporaries.h"

namespace mkc {
namespace {

namespace fs = std::filesystem;

// Returns the number in front of words of an assembler's log.
std::optional<uint32_t> number_before(const std::string& log, std::string_view words) {
  const size_t end = log.find(words);
  if (end == log.npos || end == 0) return std::nullopt;
  const size_t begin = log.rfind(' ', end - 1) + 1;
  uint32_t number = 0;
  const auto [behind, failed] = std::from_chars(log.data() + begin, log.data() + end, number);
  return failed == std::errc() && behind == log.data() + end ? std::optional(number) : std::nullopt;
}

// Search collects candidates and lists each file once.
struct Search : AssemblerSearch {
  void add(const std::string& path, const std::string& origin) {
    std::error_code ignored;
    const fs::path real = fs::weakly_canonical(path, ignored);
    for (const AssemblerCandidate& c : found)
      if (fs::weakly_canonical(c.path, ignored) == real) return;
    found.push_back({path, origin});
  }
  void add_matches(const std::string& pattern, const std::string& origin) {
    looked_at.push_back(fmt::format("{} ({})", pattern, origin));
    glob_t matches{};
    if (glob(pattern.c_str(), 0, nullptr, &matches) == 0)
      for (size_t i = 0; i < matches.gl_pathc; ++i) add(matches.gl_pathv[i], origin);
    globfree(&matches);
  }
  // Adds the assemblers of a folder: a CUDA toolkit, or the place where Python packages are installed.
  void add_toolkit(const std::string& folder, const std::string& origin) {
    for (const char* programs : {"bin", "nvidia/*/bin"})
      add_matches(fmt::format("{}/{}/ptxas", folder, programs), origin);
    for (const char* library : {"lib64", "lib", "targets/*/lib", "nvidia/*/lib"})
      add_matches(fmt::format("{}/{}/libnvJitLink.so*", folder, library), origin);
  }
};

std::string program_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? "" : program.parent_path().string();
}

}  // namespace

AssemblerSearch search_assemblers(const std::string& flag) {
  Search search;
  for (const auto& [path, origin] :
       {std::pair(flag, "--assembler"), std::pair(mkrt::environment("MKC_ASSEMBLER"), "MKC_ASSEMBLER")})
    if (!path.empty()) {
      search.looked_at.push_back(fmt::format("{} ({})", path, origin));
      search.add(path, origin);
      search.found.back().named = true;
      return search;
    }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string folder = mkrt::environment(name); !folder.empty()) search.add_toolkit(folder, name);
  if (const std::string folder = program_folder(); !folder.empty())
    search.add_toolkit(folder + "/assembler", "beside mkc");
  for (const char* folder : {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"})
    search.add_toolkit(folder, "usual folder");
  search.add_matches("/usr/lib/x86_64-linux-gnu/libnvJitLink.so*", "usual folder");
  std::string path = mkrt::environment("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    search.add_matches(path.substr(begin, end - begin) + "/ptxas", "PATH");
    begin = end + 1;
  }
  return search;
}

std::string why_not_loaded(const std::string& assembler, uint32_t driver) {
  const size_t at = assembler.find(' ');  // "ptxas 13.0, V13.0.88 (/usr/bin/ptxas)"
  const auto release =
      at == assembler.npos ? 0 : static_cast<uint32_t>(std::strtoul(assembler.c_str() + at + 1, nullptr, 10));
  if (driver == 0 || driver / 1000 >= release) return "";
  return fmt::format(
      "the driver supports CUDA {}.{}, and {} makes cubins of CUDA {}: expected a driver of {}.0 or newer, "
      "or an --assembler of CUDA 12.8 or 12.9",
      driver / 1000, driver % 1000 / 10, assembler, release, release);
}

OpenedAssembler open_assembler(const std::string& path, uint32_t driver) {
  const bool library = fs::path(path).filename().string().starts_with("libnvJitLink");
  Result<std::unique_ptr<Assembler>> opened = library ? open_nvjitlink(path) : open_ptxas(path);
  if (!opened.ok()) return {nullptr, opened.error().message};
  std::string fault = why_not_loaded(opened.value()->name(), driver);
  return {std::move(opened.value()), std::move(fault)};
}

Result<std::unique_ptr<Assembler>> find_assembler(const std::string& flag, uint32_t driver) {
  std::string looked_at;
  bool newer = false;  // some candidate is newer than the driver
  for (const AssemblerCandidate& c : search_assemblers(flag).found) {
    OpenedAssembler opened = open_assembler(c.path, driver);
    if (opened.fault.empty()) return std::move(opened.assembler);
    newer = newer || opened.assembler;
    if (c.named) return Error{fmt::format("{} {}: error: {}", c.origin, c.path, opened.fault)};
    // Another assembler would make other code, silently, where a disk is full.
    if (const mkrt::TemporaryFolder probe; probe.path.empty())
      return Error{fmt::format("{}: error: {}", c.path, opened.fault)};
    looked_at += fmt::format("\n  {} ({}): {}", c.path, c.origin, opened.fault);
  }
  return Error{fmt::format(
      "error: no assembler for {}, or give --assembler FILE{}",
      newer ? "the driver found: install CUDA 12.8 or 12.9, run tools/fetch-assembler build/assembler 12.9.86"
            : "PTX found: install CUDA 12.8 or newer, run tools/fetch-assembler",
      looked_at)};
}

std::vector<Resources> read_resources(const std::string& log) {
  constexpr std::string_view kKernel = "Compiling entry function '";
  std::vector<Resources> kernels;
  for (size_t at = log.find(kKernel), next; at != log.npos; at = next) {
    const size_t name = at + kKernel.size();
    next = log.find(kKernel, name);
    // The first properties of a kernel are its own. Functions that it calls follow.
    const std::string part = log.substr(name, next - name);
    Resources kernel{part.substr(0, part.find('\''))};
    const auto stack = number_before(part, " bytes stack frame"),
               stores = number_before(part, " bytes spill stores"),
               loads = number_before(part, " bytes spill loads"),
               registers = number_before(part, " registers");
    if (!stack || !stores || !loads || !registers) continue;
    kernel.stack_bytes = *stack, kernel.spill_store_bytes = *stores, kernel.spill_load_bytes = *loads;
    kernel.registers = *registers;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace mkc
