#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <type_traits>

namespace mkrt {

Result<const Driver*> load_driver() {
  static Driver driver{};
  static const std::string failure = []() -> std::string {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "cuda: error: no driver: libcuda.so.1 is not there";
    std::string missing;
    const auto look = [&](auto& member, const char* name) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
      return member != nullptr;
    };
    const auto find = [&](auto& member, const char* name) {
      if (!look(member, name)) missing = name;
    };
    find(driver.init, "cuInit");
    find(driver.error_name, "cuGetErrorName");
    find(driver.device_get, "cuDeviceGet");
    find(driver.device_count, "cuDeviceGetCount");
    find(driver.device_name, "cuDeviceGetName");
    find(driver.device_attribute, "cuDeviceGetAttribute");
    find(driver.device_memory, "cuDeviceTotalMem_v2");
    look(driver.device_uuid, "cuDeviceGetUuid");
    look(driver.driver_version, "cuDriverGetVersion");
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
    find(driver.launch, "cuLaunchKernelEx");
    find(driver.host_alloc, "cuMemAllocHost_v2");
    find(driver.host_free, "cuMemFreeHost");
    find(driver.copy_in_async, "cuMemcpyHtoDAsync_v2");
    find(driver.copy_out_async, "cuMemcpyDtoHAsync_v2");
    find(driver.copy_async, "cuMemcpyDtoDAsync_v2");
    find(driver.event_create, "cuEventCreate");
    find(driver.event_destroy, "cuEventDestroy_v2");
    find(driver.event_record, "cuEventRecord");
    find(driver.event_wait, "cuEventSynchronize");
    find(driver.stream_wait, "cuStreamSynchronize");
    find(driver.stream_capturing, "cuStreamIsCapturing");
    find(driver.stream_create, "cuStreamCreate");
    find(driver.stream_destroy, "cuStreamDestroy_v2");
    find(driver.capture_begin, "cuStreamBeginCapture_v2");
    find(driver.capture_end, "cuStreamEndCapture");
    find(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
    find(driver.graph_destroy, "cuGraphDestroy");
    find(driver.graph_launch, "cuGraphLaunch");
    find(driver.executable_destroy, "cuGraphExecDestroy");
    if (!missing.empty()) return fmt::format("cuda: error: the driver has no {}: it is too old", missing);
    if (const CUresult result = driver.init(0); result != 0)
      return fmt::format("cuda: error: cuInit gave {}", result);
    return {};
  }();
  if (!failure.empty()) return Error{failure};
  return &driver;
}

}  // namespace mkrt
