#include "tools/doctor/gpu.h"

#include <fmt/format.h>

#include "runtime/device/cuda_driver.h"

namespace mkc {

struct Gpu::State {
  const mkrt::Driver& driver;
  mkrt::CUdevice device = 0;
  mkrt::Handle context = nullptr, module = nullptr;
  std::string image{};
  std::map<std::string, mkrt::Handle> kernels{};
};

Gpu::Gpu(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Memory and module are freed when the process ends.
Gpu::~Gpu() = default;

Status Gpu::check(int result, const std::string& doing) const {
  if (result == 0) return {};
  return Error{fmt::format("{} gave {}", doing, mkrt::answer_text(state_->driver, result))};
}

Result<std::unique_ptr<Gpu>> Gpu::open(std::string image) {
  const mkrt::Result<const mkrt::Driver*> driver = mkrt::load_driver();
  if (!driver.ok()) return driver.error();
  std::unique_ptr<Gpu> gpu(new Gpu(std::make_unique<State>(State{*driver.value()})));
  State& s = *gpu->state_;
  s.image = std::move(image);
  for (const auto& [result, doing] :
       {std::pair(s.driver.device_get(&s.device, 0), "cuDeviceGet"),
        {s.driver.context_retain(&s.context, s.device), "cuDevicePrimaryCtxRetain"},
        {s.driver.context_set(s.context), "cuCtxSetCurrent"},
        {s.driver.module_load(&s.module, s.image.c_str()), "loading the probes"}})
    if (Status status = gpu->check(result, doing); !status.ok()) return status.error();
  return gpu;
}

uint64_t Gpu::free_bytes() const {
  size_t free = 0, all = 0;
  const bool told = state_->driver.memory_info && state_->driver.memory_info(&free, &all) == 0;
  return told ? free : 0;
}

Result<uint64_t> Gpu::allocate(uint64_t bytes) {
  mkrt::CUdeviceptr address = 0;
  if (Status s =
          check(state_->driver.memory_alloc(&address, bytes), fmt::format("allocating {} bytes", bytes));
      !s.ok())
    return s.error();
  if (Status s = clear(address, bytes); !s.ok()) return s.error();
  return uint64_t{address};
}

Status Gpu::clear(uint64_t at, uint64_t bytes) {
  return check(state_->driver.fill(at, 0, bytes), "clearing memory");
}
Status Gpu::write(uint64_t to, std::span<const uint32_t> from) {
  return check(state_->driver.copy_in(to, from.data(), from.size_bytes()), "copying to the device");
}
Status Gpu::read(std::span<std::byte> to, uint64_t from) {
  return check(state_->driver.copy_out(to.data(), from, to.size()), "copying from the device");
}

Status Gpu::run(const Launch& launch) {
  mkrt::Handle& kernel = state_->kernels[launch.kernel];
  if (!kernel) {
    if (Status s = check(state_->driver.module_function(&kernel, state_->module, launch.kernel.c_str()),
                         "finding " + launch.kernel);
        !s.ok())
      return s;
  }
  if (launch.shared_bytes > 0)
    if (Status s = check(state_->driver.function_set(kernel, mkrt::kFunctionDynamicShared,
                                                     static_cast<int>(launch.shared_bytes)),
                         fmt::format("asking for {} bytes of shared memory", launch.shared_bytes));
        !s.ok())
      return s;
  std::vector<uint64_t> values = launch.arguments;
  std::vector<void*> arguments;
  for (uint64_t& value : values) arguments.push_back(&value);
  const mkrt::LaunchConfig config{launch.blocks, 1,       1, launch.threads, 1, 1, launch.shared_bytes,
                                  nullptr,       nullptr, 0};
  if (Status s = check(state_->driver.launch(&config, kernel, arguments.data(), nullptr),
                       "launching " + launch.kernel);
      !s.ok())
    return s;
  return check(state_->driver.stream_wait(nullptr), "running " + launch.kernel);
}

}  // namespace mkc
