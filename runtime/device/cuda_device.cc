#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/artefact/plan.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

namespace mkrt {
namespace {

constexpr CUresult kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
constexpr uint32_t kPackers = 4;      // blocks of mk_pack per multiprocessor

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(const Driver& driver, int ordinal) {
    std::unique_ptr<CudaDevice> device(new CudaDevice(driver));
    int count = 0;
    if (Status s = device->check(driver.device_count(&count), "cuDeviceGetCount"); !s.ok()) return s.error();
    if (ordinal < 0 || ordinal >= count)
      return Error{fmt::format("cuda: error: no device {}, the driver has {}", ordinal, count)};
    if (Status s = device->start(ordinal); !s.ok()) return s.error();
    return std::unique_ptr<Device>(std::move(device));
  }

  ~CudaDevice() override {
    if (!context_) return;
    unload();
    for (const uint64_t address : blocks_) driver_.memory_free(address);
    driver_.context_release(device_);
  }

  std::string name() const override { return name_; }
  uint64_t memory_bytes() const override {
    size_t bytes = 0;
    return driver_.device_memory(&bytes, device_) == 0 ? bytes : 0;
  }

  Result<uint64_t> allocate(uint64_t bytes) override {
    use();
    CUdeviceptr address = 0;
    const CUresult result = driver_.memory_alloc(&address, bytes == 0 ? 1 : bytes);
    if (Status s = check(result, fmt::format("allocating {} bytes{}", bytes, result == 0 ? "" : free_text()));
        !s.ok())
      return s.error();
    blocks_.insert(address);
    return uint64_t{address};
  }
  void release(uint64_t address) override {
    use();
    driver_.memory_free(address);
    blocks_.erase(address);
  }
  Status write(uint64_t to, std::span<const std::byte> from) override {
    use();
    return from.empty() ? Status()
                        : check(driver_.copy_in(to, from.data(), from.size()), "copying to the device");
  }
  Status read(std::span<std::byte> to, uint64_t from) override {
    use();
    return to.empty() ? Status()
                      : check(driver_.copy_out(to.data(), from, to.size()), "copying from the device");
  }
  Status clear(uint64_t at, uint64_t bytes) override {
    use();
    return bytes == 0 ? Status() : check(driver_.fill(at, 0, bytes), "clearing memory");
  }

  Status load(const Artefact& artefact) override {
    const Manifest& m = artefact.manifest;
    if (artefact.image.empty()) return fail("the artefact holds no cubin: it was compiled for " + m.target);
    if (!m.target.starts_with("sm_"))
      return fail(fmt::format("the artefact is for {}, the device runs sm_{}{}", m.target, major_, minor_));
    if (loaded()) return loaded_ == m ? Status() : has_other_kernel(name_, loaded_, m);
    use();
    if (Status s =
            check(driver_.module_load(&module_, artefact.image.data()),
                  fmt::format("loading a cubin of {} on a device of sm_{}{}", m.target, major_, minor_));
        !s.ok())
      return s;
    if (Status s = take_functions(artefact); !s.ok()) {
      unload();  // the next load has a module of its own
      return s;
    }
    loaded_ = m;
    return {};
  }

  bool loaded() const override { return loaded_.workers != 0; }
  void unload() override {
    use();
    for (const auto& [addresses, executable] : graphs_) driver_.executable_destroy(executable);
    graphs_.clear();
    launches_.clear();
    if (module_) driver_.module_unload(std::exchange(module_, nullptr));
    loaded_ = {};
  }

  Status pack(uint64_t pack) override {
    use();
    uint32_t workers = static_cast<uint32_t>(sms_) * kPackers, threads = loaded_.threads;
    void* arguments[] = {&pack, &workers, &threads};
    const LaunchConfig config{workers, 1, 1, threads, 1, 1, 0, nullptr, nullptr, 0};
    return check(driver_.launch(&config, pack_, arguments, nullptr), "launching mk_pack");
  }

  Status enqueue_write(uint64_t stream, uint64_t to, std::span<const std::byte> from) override {
    use();
    return from.empty() ? Status()
                        : check(driver_.copy_in_async(to, from.data(), from.size(), handle(stream)),
                                "copying to the device");
  }
  Status enqueue_read(uint64_t stream, std::span<std::byte> to, uint64_t from) override {
    use();
    return to.empty() ? Status()
                      : check(driver_.copy_out_async(to.data(), from, to.size(), handle(stream)),
                              "copying from the device");
  }
  Status enqueue_copy(uint64_t stream, uint64_t to, uint64_t from, uint64_t bytes) override {
    use();
    return check(driver_.copy_async(to, from, bytes, handle(stream)), "copying on the device");
  }
  Status launch(uint64_t stream, uint64_t session, uint64_t step, uint32_t steps) override {
    use();
    if (launches_.empty()) return launch_kernel(session, step, handle(stream));
    const bool captured = capturing(stream);  // a graph cannot be launched into another graph
    for (uint32_t i = 0; i < steps; ++i) {
      const Status status = captured ? launch_grids(session, step, handle(stream))
                                     : launch_graph(session, step, handle(stream));
      if (!status.ok()) return status;
    }
    return {};
  }

  Result<std::byte*> allocate_host(uint64_t bytes) override {
    use();
    void* memory = nullptr;
    const CUresult result = driver_.host_alloc(&memory, bytes);
    if (Status s = check(result, fmt::format("allocating {} bytes of the host", bytes)); !s.ok())
      return s.error();
    return static_cast<std::byte*>(memory);
  }
  void release_host(std::byte* memory) override {
    use();
    driver_.host_free(memory);
  }

  Result<uint64_t> make_mark() override {
    use();
    Handle event = nullptr;
    if (Status s = check(driver_.event_create(&event, kEventNoTiming), "making an event"); !s.ok())
      return s.error();
    return reinterpret_cast<uint64_t>(event);
  }
  void release_mark(uint64_t mark) override {
    use();
    driver_.event_destroy(handle(mark));
  }
  Status enqueue_mark(uint64_t stream, uint64_t mark) override {
    use();
    return check(driver_.event_record(handle(mark), handle(stream)), "recording an event");
  }
  Status wait_for_mark(uint64_t mark) override {
    use();
    return check(driver_.event_wait(handle(mark)), "running the kernel");
  }
  Status wait_for_stream(uint64_t stream) override {
    use();
    return check(driver_.stream_wait(handle(stream)), "running the kernel");
  }
  bool has_streams() const override { return true; }
  bool capturing(uint64_t stream) override {
    use();
    int status = 0;  // the driver may not be asked about the default stream, which nobody captures
    return stream != 0 && driver_.stream_capturing(handle(stream), &status) == 0 && status != 0;
  }

 private:
  explicit CudaDevice(const Driver& driver) : driver_(driver) {}

  static Handle handle(uint64_t number) { return reinterpret_cast<Handle>(number); }

  // Returns how much memory is free, in the words of an error, or "".
  std::string free_text() const {
    size_t free = 0, all = 0;
    if (!driver_.memory_info || driver_.memory_info(&free, &all) != 0) return "";
    return fmt::format(", of {} with {} free,", all, free);
  }

  // Makes the context current. Any thread may call, and may have used another device before.
  void use() const { driver_.context_set(context_); }

  Status start(int ordinal) {
    if (Status s = check(driver_.device_get(&device_, ordinal), "cuDeviceGet"); !s.ok()) return s;
    char name[256] = "";
    driver_.device_name(name, sizeof(name), device_);
    name_ = name;
    for (const auto& [attribute, value] :
         {std::pair{kAttributeSms, &sms_}, {kAttributeMajor, &major_}, {kAttributeMinor, &minor_}})
      if (Status s = check(driver_.device_attribute(value, attribute, device_), "cuDeviceGetAttribute");
          !s.ok())
        return s;
    int version = 0;
    may_overlap_ = major_ >= 9 && driver_.driver_version && driver_.driver_version(&version) == 0 &&
                   version >= kCapturesOverlap;
    if (Status s = check(driver_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain"); !s.ok())
      return s;
    return check(driver_.context_set(context_), "cuCtxSetCurrent");
  }

  Status take_functions(const Artefact& artefact) {
    if (Status s = check(driver_.module_function(&pack_, module_, "mk_pack"), "finding mk_pack"); !s.ok())
      return s;
    return artefact.manifest.launches.empty() ? take_kernel(artefact.manifest) : take_grid_kernels(artefact);
  }

  Status take_function(const Manifest& m, const std::string& name, Handle& function) {
    if (Status s = check(driver_.module_function(&function, module_, name.c_str()), "finding " + name);
        !s.ok())
      return s;
    return check(driver_.function_set(function, kFunctionDynamicShared, static_cast<int>(m.shared_bytes)),
                 fmt::format("asking for {} bytes of shared memory", m.shared_bytes));
  }

  Status take_kernel(const Manifest& m) {
    if (Status s = take_function(m, "mk_kernel", kernel_); !s.ok()) return s;
    int blocks = 0;
    if (Status s = check(driver_.occupancy(&blocks, kernel_, static_cast<int>(m.threads), m.shared_bytes),
                         "asking for the occupancy");
        !s.ok())
      return s;
    if (blocks == 0) return fail(no_room_text(m));
    // Workers wait for each other, so all must be resident at once.
    if (uint64_t{m.workers} > static_cast<uint64_t>(blocks) * static_cast<uint64_t>(sms_))
      return fail(
          fmt::format("{} workers, but {} multiprocessors hold {} each; compile with --workers {}, or with "
                      "--mode=kernels, whose workers need not run at once",
                      m.workers, sms_, blocks, blocks * sms_));
    return {};
  }

  // Returns the words of an error for a kernel that a multiprocessor does not hold even once.
  std::string no_room_text(const Manifest& m) const {
    int registers = 0;
    driver_.function_get(&registers, kFunctionRegisters, kernel_);
    return fmt::format(
        "the kernel does not fit a multiprocessor: {} threads of {} registers, and {} bytes of shared "
        "memory; expected a cubin compiled for this device, and no tool that adds registers to it",
        m.threads, registers, m.shared_bytes);
  }

  Status take_grid_kernels(const Artefact& artefact) {
    const Manifest& m = artefact.manifest;
    const std::vector<uint32_t> kinds = launch_kinds(m);
    std::map<uint32_t, Handle> functions;
    for (const uint32_t kind : kinds)
      if (const auto [at, is_new] = functions.emplace(kind, nullptr); is_new)
        if (Status s = take_function(m, fmt::format("mk_grid_{}", kind), at->second); !s.ok()) return s;
    for (size_t i = 0; i < kinds.size(); ++i) launches_.push_back({functions[kinds[i]], m.launches[i]});
    return {};
  }

  Status launch_kernel(uint64_t session, uint64_t step, Handle stream) {
    void* arguments[] = {&session, &step};
    const CUresult result = driver_.launch_cooperative(kernel_, loaded_.workers, 1, 1, loaded_.threads, 1, 1,
                                                       loaded_.shared_bytes, stream, arguments);
    return check(result, result == kTooManyBlocks
                             ? "launching (compile with fewer --workers or with --mode=kernels)"
                             : "launching");
  }

  // Launches the kernels of grids. Each kernel may begin while the one before it runs, and decides itself how
  // far it goes then.
  Status launch_grids(uint64_t session, uint64_t step, Handle stream) {
    const LaunchAttribute overlap{kMayOverlap, 0, {1}};
    for (const GridLaunch& launch : launches_) {
      uint32_t grid = launch.grid;
      void* arguments[] = {&session, &step, &grid};
      const unsigned attributes = may_overlap_ && &launch != &launches_.front() ? 1 : 0;
      const LaunchConfig config{loaded_.workers,      1,      1,        loaded_.threads, 1, 1,
                                loaded_.shared_bytes, stream, &overlap, attributes};
      if (Status s = check(driver_.launch(&config, launch.function, arguments, nullptr),
                           "launching " + loaded_.grids[grid].name);
          !s.ok())
        return s;
    }
    return {};
  }

  // Launches the graph of these two addresses. All data that the kernels read is reached from them, so one
  // graph serves every step.
  Status launch_graph(uint64_t session, uint64_t step, Handle stream) {
    Handle& executable = graphs_[{session, step}];
    if (!executable)
      if (Status captured = capture(session, step, executable); !captured.ok()) return captured;
    return check(driver_.graph_launch(executable, stream), "launching the graph");
  }

  Status capture(uint64_t session, uint64_t step, Handle& executable) {
    Handle stream = nullptr, graph = nullptr;
    if (Status s = check(driver_.stream_create(&stream, kStreamNonBlocking), "making a stream"); !s.ok())
      return s;
    Status status = check(driver_.capture_begin(stream, kCaptureOfThread), "beginning a capture");
    if (status.ok()) {
      status = launch_grids(session, step, stream);
      const Status ended = check(driver_.capture_end(stream, &graph), "ending a capture");
      if (status.ok()) status = ended;
    }
    if (status.ok()) status = check(driver_.graph_instantiate(&executable, graph, 0), "making a graph");
    if (graph) driver_.graph_destroy(graph);
    driver_.stream_destroy(stream);
    return status;
  }

  Status fail(const std::string& message, ErrorKind kind = ErrorKind::kNoDevice) const {
    return Error{fmt::format("{}: error: {}", name_.empty() ? "cuda" : name_, message), kind};
  }
  Status check(CUresult result, const std::string& doing) const {
    if (result == 0) return {};
    return fail(fmt::format("{} gave {}", doing, answer_text(driver_, result)),
                result == kOutOfMemory ? ErrorKind::kNoMemory : ErrorKind::kFault);
  }

  const Driver& driver_;
  CUdevice device_ = 0;
  Handle context_ = nullptr, module_ = nullptr, kernel_ = nullptr, pack_ = nullptr;
  std::string name_;
  int sms_ = 0, major_ = 0, minor_ = 0;
  struct GridLaunch {
    Handle function;
    uint32_t grid;
  };
  bool may_overlap_ = false;                                // a kernel may begin while the one before it runs
  std::vector<GridLaunch> launches_;                        // empty: mk_kernel runs the step
  std::map<std::pair<uint64_t, uint64_t>, Handle> graphs_;  // by the addresses of session and step
  Manifest loaded_;                                         // 0 workers: nothing is loaded
  std::set<uint64_t> blocks_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda(int ordinal) {
  const Result<const Driver*> driver = load_driver();
  if (!driver.ok()) return driver.error();
  return CudaDevice::open(*driver.value(), ordinal);
}

}  // namespace mkrt
