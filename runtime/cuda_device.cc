#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "runtime/device.h"

namespace mkrt {
namespace {

// The driver API as its documentation declares it (CUDA Driver API, "Modules"), by opaque handles.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using Handle = void*;

constexpr int kAttributeSms = 16, kAttributeMajor = 75, kAttributeMinor = 76;  // CUdevice_attribute
constexpr int kFunctionDynamicShared = 8;                                      // CUfunction_attribute

struct Driver {
  CUresult (*init)(unsigned flags);
  CUresult (*error_name)(CUresult, const char** name);
  CUresult (*device_get)(CUdevice*, int ordinal);
  CUresult (*device_count)(int*);
  CUresult (*device_name)(char* name, int bytes, CUdevice);
  CUresult (*device_attribute)(int* value, int attribute, CUdevice);
  CUresult (*context_retain)(Handle* context, CUdevice);
  CUresult (*context_release)(CUdevice);
  CUresult (*context_set)(Handle context);
  CUresult (*module_load)(Handle* module, const void* image);
  CUresult (*module_unload)(Handle module);
  CUresult (*module_function)(Handle* function, Handle module, const char* name);
  CUresult (*function_set)(Handle function, int attribute, int value);
  CUresult (*occupancy)(int* blocks, Handle function, int threads, size_t shared_bytes);
  CUresult (*memory_alloc)(CUdeviceptr*, size_t bytes);
  CUresult (*memory_free)(CUdeviceptr);
  CUresult (*copy_in)(CUdeviceptr to, const void* from, size_t bytes);
  CUresult (*copy_out)(void* to, CUdeviceptr from, size_t bytes);
  CUresult (*fill)(CUdeviceptr at, unsigned char value, size_t bytes);
  CUresult (*launch_cooperative)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 Handle stream, void** arguments);
  CUresult (*synchronize)();
};

// Looks the driver up once for the process.
Result<const Driver*> load_driver() {
  static Driver driver{};
  static const std::string failure = []() -> std::string {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "cuda: error: no driver: libcuda.so.1 is not there";
    std::string missing;
    const auto find = [&](auto& member, const char* name) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
      if (!member) missing = name;
    };
    find(driver.init, "cuInit");
    find(driver.error_name, "cuGetErrorName");
    find(driver.device_get, "cuDeviceGet");
    find(driver.device_count, "cuDeviceGetCount");
    find(driver.device_name, "cuDeviceGetName");
    find(driver.device_attribute, "cuDeviceGetAttribute");
    find(driver.context_retain, "cuDevicePrimaryCtxRetain");
    find(driver.context_release, "cuDevicePrimaryCtxRelease_v2");
    find(driver.context_set, "cuCtxSetCurrent");
    find(driver.module_load, "cuModuleLoadData");
    find(driver.module_unload, "cuModuleUnload");
    find(driver.module_function, "cuModuleGetFunction");
    find(driver.function_set, "cuFuncSetAttribute");
    find(driver.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    find(driver.memory_alloc, "cuMemAlloc_v2");
    find(driver.memory_free, "cuMemFree_v2");
    find(driver.copy_in, "cuMemcpyHtoD_v2");
    find(driver.copy_out, "cuMemcpyDtoH_v2");
    find(driver.fill, "cuMemsetD8_v2");
    find(driver.launch_cooperative, "cuLaunchCooperativeKernel");
    find(driver.synchronize, "cuCtxSynchronize");
    if (!missing.empty()) return fmt::format("cuda: error: the driver has no {}: it is too old", missing);
    if (const CUresult result = driver.init(0); result != 0)
      return fmt::format("cuda: error: cuInit gave {}", result);
    return {};
  }();
  if (!failure.empty()) return Error{failure};
  return &driver;
}

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
    use();
    if (module_) driver_.module_unload(module_);
    for (const uint64_t address : blocks_) driver_.memory_free(address);
    driver_.context_release(device_);
  }

  std::string name() const override { return name_; }

  Result<uint64_t> allocate(uint64_t bytes) override {
    use();
    CUdeviceptr address = 0;
    const CUresult result = driver_.memory_alloc(&address, bytes == 0 ? 1 : bytes);
    if (Status s = check(result, fmt::format("allocating {} bytes", bytes)); !s.ok()) return s.error();
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
    if (loaded_.workers != 0) return loaded_ == m ? Status() : has_other_kernel(name_, loaded_, m);
    use();
    if (Status s =
            check(driver_.module_load(&module_, artefact.image.data()),
                  fmt::format("loading a cubin of {} on a device of sm_{}{}", m.target, major_, minor_));
        !s.ok())
      return s;
    if (Status s = check(driver_.module_function(&kernel_, module_, "mk_kernel"), "finding mk_kernel");
        !s.ok())
      return s;
    if (Status s =
            check(driver_.function_set(kernel_, kFunctionDynamicShared, static_cast<int>(m.shared_bytes)),
                  fmt::format("asking for {} bytes of shared memory", m.shared_bytes));
        !s.ok())
      return s;
    int blocks = 0;
    if (Status s = check(driver_.occupancy(&blocks, kernel_, static_cast<int>(m.threads), m.shared_bytes),
                         "asking for the occupancy");
        !s.ok())
      return s;
    // Workers wait for each other, so all must be resident.
    if (uint64_t{m.workers} > static_cast<uint64_t>(blocks) * static_cast<uint64_t>(sms_))
      return fail(fmt::format("{} workers, but {} multiprocessors hold {} each; compile with --workers {}",
                              m.workers, sms_, blocks, blocks * sms_));
    loaded_ = m;
    return {};
  }

  Status launch(uint64_t session, uint64_t step) override {
    use();
    void* arguments[] = {&session, &step};
    const CUresult result = driver_.launch_cooperative(kernel_, loaded_.workers, 1, 1, loaded_.threads, 1, 1,
                                                       loaded_.shared_bytes, nullptr, arguments);
    if (Status s = check(result, "launching"); !s.ok()) return s;
    return check(driver_.synchronize(), "running the kernel");
  }

 private:
  explicit CudaDevice(const Driver& driver) : driver_(driver) {}

  // Whichever thread calls, and whatever device it used before.
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
    if (Status s = check(driver_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain"); !s.ok())
      return s;
    return check(driver_.context_set(context_), "cuCtxSetCurrent");
  }

  Status fail(const std::string& message) const {
    return Error{fmt::format("{}: error: {}", name_.empty() ? "cuda" : name_, message)};
  }
  Status check(CUresult result, const std::string& doing) const {
    if (result == 0) return {};
    const char* name = nullptr;
    driver_.error_name(result, &name);
    return fail(fmt::format("{} gave {}", doing, name ? name : std::to_string(result)));
  }

  const Driver& driver_;
  CUdevice device_ = 0;
  Handle context_ = nullptr, module_ = nullptr, kernel_ = nullptr;
  std::string name_;
  int sms_ = 0, major_ = 0, minor_ = 0;
  Manifest loaded_;  // no workers: nothing is loaded
  std::set<uint64_t> blocks_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda(int ordinal) {
  const Result<const Driver*> driver = load_driver();
  if (!driver.ok()) return driver.error();
  return CudaDevice::open(*driver.value(), ordinal);
}

}  // namespace mkrt
