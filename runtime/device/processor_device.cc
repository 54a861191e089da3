// The processor is a device, too. Device memory is memory of the process, and each worker is a thread.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "runtime/artefact/plan.h"
#include "runtime/device/container_limits.h"
#include "runtime/device/crew.h"
#include "runtime/device/device.h"
#include "runtime/device/large_pages.h"
#include "runtime/device/processor.h"

namespace mkrt {
namespace {

using StepEntry = void (*)(const MkSession*, const MkStep*, const MkThread*);
using GridsEntry = void (*)(const MkSession*, const MkStep*, uint32_t grid, const MkThread*);
using PackRowsEntry = void (*)(const MkPack*, uint32_t part, uint32_t parts);

// Mapping holds anonymous memory in large pages, where the system has some.
class Mapping {
 public:
  explicit Mapping(uint64_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ != MAP_FAILED) madvise(at_, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool ok() const { return at_ != MAP_FAILED; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(at_); }

 private:
  uint64_t bytes_;
  void* at_;
};

// MemoryFile is a file in memory, which has no name.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : file_(memfd_create("mkc", MFD_CLOEXEC)) {
    for (whole_ = file_ >= 0; whole_ && !bytes.empty();) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      whole_ = written > 0;
      if (whole_) bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  bool whole() const { return whole_; }  // false: errno says why
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
  bool whole_;
};

// Code is a shared object loaded from memory. Its file stays open because dlopen() takes an object of the
// same path for the one that is loaded already.
struct Code {
  std::unique_ptr<MemoryFile> file{};
  std::unique_ptr<void, int (*)(void*)> object{nullptr, dlclose};
  StepEntry step = nullptr;
  std::vector<GridsEntry> grids;  // by kind; null for kinds that are not launched
  PackRowsEntry pack = nullptr;

  template <class Entry>
  Status find(const std::string& name, Entry& entry) const {
    entry = reinterpret_cast<Entry>(dlsym(object.get(), name.c_str()));
    return entry ? Status() : Status(Error{fmt::format("cpu: error: the artefact's code has no {}", name)});
  }
};

Result<Code> load_code(const Artefact& artefact) {
  if (artefact.image.empty()) return Error{"cpu: error: the artefact has no code"};
  Code code;
  code.file = std::make_unique<MemoryFile>(artefact.image);
  if (!code.file->whole())
    return Error{
        fmt::format("cpu: error: the artefact's code cannot be kept in memory: {}", strerror(errno))};
  code.object.reset(dlopen(code.file->path().c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!code.object) {
    const std::string why = dlerror();
    if (access(code.file->path().c_str(), F_OK) == 0)
      return Error{fmt::format("cpu: error: the artefact's code does not load: {}", why)};
    return Error{fmt::format(
        "cpu: error: the artefact's code does not load: found no {}, expected /proc to be mounted",
        code.file->path())};
  }
  if (Status status = code.find("mk_pack", code.pack); !status.ok()) return status.error();
  if (artefact.manifest.launches.empty()) {
    if (Status status = code.find("mk_kernel", code.step); !status.ok()) return status.error();
    return code;
  }
  for (const uint32_t kind : launch_kinds(artefact.manifest)) {
    if (code.grids.size() <= kind) code.grids.resize(kind + 1);
    if (Status status = code.find(fmt::format("mk_grid_{}", kind), code.grids[kind]); !status.ok())
      return status.error();
  }
  return code;
}

class ProcessorDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  uint64_t memory_bytes() const override { return memory_within({}); }
  ContainerLimits limits() const override { return limits_; }

  Result<uint64_t> allocate(uint64_t bytes) override {
    auto mapping = std::make_shared<const Mapping>(bytes);
    if (!mapping->ok())
      return Error{fmt::format("cpu: error: no memory for {} bytes", bytes), ErrorKind::kNoMemory};
    const uint64_t address = mapping->address();
    blocks_.emplace(address, Block{std::move(mapping), bytes});
    return address;
  }
  void release(uint64_t address) override { blocks_.erase(address); }
  // The mapping of a file serves as it is where the system maps it in large pages. Small pages take longer to
  // read (docs/processor.md), so that a copy in anonymous memory pays. The system can take back pages of the
  // file, but not of a copy: a copy has no place where a container's memory is scarce.
  Result<uint64_t> hold(const MappedFile& file, uint64_t offset) override {
    const std::span<const std::byte> bytes = file.bytes.subspan(offset);
    const bool has_room = limits_.memory_bytes == 0 || bytes.size() <= limits_.memory_bytes / 2;
    if (has_room && large_page_bytes(file.mapping.get()) < bytes.size() / 2) return copy(bytes);
    const auto address = reinterpret_cast<uint64_t>(bytes.data());
    blocks_.emplace(address, Block{file.mapping, 0});
    return address;
  }
  bool shares_memory() const override { return true; }
  Status write(uint64_t to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return {};
  }
  Status read(std::span<std::byte> to, uint64_t from) override {
    if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size());
    return {};
  }
  // Large ranges of the device's own memory get new pages, which the system clears when they are first used.
  // A session's cache is such a range, and most of it is not used for long.
  Status clear(uint64_t at, uint64_t bytes) override {
    constexpr uint64_t kLarge = uint64_t{16} << 20, kPage = uint64_t{4} << 10;
    const uint64_t end = at + bytes, first = (at + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
    if (bytes < kLarge || !owns(at, bytes) ||
        madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0) {
      std::memset(reinterpret_cast<void*>(at), 0, bytes);
      return {};
    }
    std::memset(reinterpret_cast<void*>(at), 0, first - at);
    std::memset(reinterpret_cast<void*>(last), 0, end - last);
    return {};
  }

  Status load(const Artefact& artefact) override {
    if (crew_) {
      if (Status status = check_process(); !status.ok()) return status;
      if (manifest_ != artefact.manifest) return has_other_kernel(name(), manifest_, artefact.manifest);
      return {};
    }
    const std::vector<std::string> targets = processor_targets();
    const std::string& wanted = artefact.manifest.target;
    if (std::ranges::find(targets, wanted) == targets.end())
      return Error{fmt::format("cpu: error: the artefact is for {}, the processor runs {}", wanted,
                               targets.empty() ? "no target" : fmt::format("{}", fmt::join(targets, ", "))),
                   ErrorKind::kNoDevice};
    if (Status status = use_target(wanted); !status.ok()) return status;
    Result<Code> code = load_code(artefact);
    if (!code.ok()) return code.error();
    code_.emplace(std::move(code.value()));
    manifest_ = artefact.manifest;
    launch_kinds_ = launch_kinds(manifest_);
    memories_.clear();
    threads_.clear();
    for (uint32_t i = 0; i < manifest_.workers; ++i) {
      memories_.push_back(std::make_unique<Mapping>(manifest_.shared_bytes));
      if (!memories_.back()->ok())
        return Error{fmt::format("cpu: error: no memory for a worker's {} bytes", manifest_.shared_bytes),
                     ErrorKind::kNoMemory};
      threads_.push_back({i, ns_per_tick(), memories_.back()->address()});
    }
    auto crew = std::make_unique<Crew>(manifest_.workers);
    if (crew->size() < manifest_.workers)
      return Error{fmt::format("cpu: error: no thread for worker {} of {}", crew->size(), manifest_.workers),
                   ErrorKind::kNoMemory};
    crew_ = std::move(crew);
    return {};
  }

  bool loaded() const override { return crew_ != nullptr; }
  void unload() override {
    crew_.reset();
    code_.reset();
    manifest_ = {};
  }

  Status pack(uint64_t pack) override {
    if (Status status = check_process(); !status.ok()) return status;
    // Parts take unequal times: memory that was not touched before has to be found by the system, or its
    // host.
    const uint32_t parts = manifest_.workers * kPartsOfWorker;
    std::atomic<uint32_t> next = 0;
    crew_->run([&](uint32_t) {
      for (uint32_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts;)
        code_->pack(reinterpret_cast<const MkPack*>(pack), part, parts);
    });
    return {};
  }

  Status launch(uint64_t /*stream*/, uint64_t session, uint64_t step, uint32_t steps) override {
    if (Status status = check_process(); !status.ok()) return status;
    const auto* of = reinterpret_cast<const MkSession*>(session);
    const auto* with = reinterpret_cast<const MkStep*>(step);
    // Crew::run() takes a reference to each lambda: a copy of its captures would allocate memory in each
    // step.
    if (code_->step) {
      const auto step_of = [&](uint32_t i) { code_->step(of, with, &threads_[i]); };
      crew_->run(std::cref(step_of));
      return {};
    }
    for (uint32_t s = 0; s < steps; ++s)
      for (size_t i = 0; i < launch_kinds_.size(); ++i) {
        const auto grid_of = [&](uint32_t thread) {
          code_->grids[launch_kinds_[i]](of, with, manifest_.launches[i], &threads_[thread]);
        };
        crew_->run(std::cref(grid_of));
      }
    return {};
  }

 private:
  static constexpr uint32_t kPartsOfWorker = 8;  // of rows that are packed
  // Block is anonymous memory of so many bytes, or the mapping of a file, which counts as 0 bytes.
  struct Block {
    std::shared_ptr<const void> mapping;
    uint64_t bytes;
  };

  Status check_process() const {
    if (crew_->here()) return {};
    return Error{
        "cpu: error: another process opened the device's first session, and a child made by fork() has none "
        "of its threads: open another device",
        ErrorKind::kNoDevice};
  }

  bool owns(uint64_t at, uint64_t bytes) const {
    auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) return false;
    const auto& [address, block] = *--after;
    return at + bytes <= address + block.bytes;
  }

  // Copies bytes to new memory, each thread a share.
  Result<uint64_t> copy(std::span<const std::byte> bytes) {
    Result<uint64_t> memory = allocate(bytes.size());
    if (!memory.ok() || bytes.empty()) return memory;
    const uint64_t parts = crew_ ? crew_->size() : 1;
    const auto copy_part = [&](uint32_t part) {
      const uint64_t begin = bytes.size() * part / parts, end = bytes.size() * (part + 1) / parts;
      std::memcpy(reinterpret_cast<std::byte*>(memory.value()) + begin, bytes.data() + begin, end - begin);
    };
    crew_ ? crew_->run(copy_part) : copy_part(0);
    return memory;
  }

  const ContainerLimits limits_ = container_limits();
  std::map<uint64_t, Block> blocks_;  // by address
  std::optional<Code> code_;
  Manifest manifest_;
  std::vector<uint32_t> launch_kinds_;
  std::vector<std::unique_ptr<Mapping>> memories_;  // by worker
  std::vector<MkThread> threads_;                   // by worker
  std::unique_ptr<Crew> crew_;                      // ends before the code does
};

}  // namespace

std::unique_ptr<Device> open_processor() {
  return std::make_unique<ProcessorDevice>();
}

}  // namespace mkrt
