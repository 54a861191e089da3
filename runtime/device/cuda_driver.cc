#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <type_traits>

namespace mkrt {
namespace {

// Returns the usual cause of an answer of the driver, or "".
std::string usual_cause(CUresult answer) {
  switch (answer) {
    case 34:
      return "libcuda.so.1 is the toolkit's stub, expected the driver's own library before it in "
             "LD_LIBRARY_PATH";
    case 46:
      return "another process has the GPU for itself, expected compute mode default (nvidia-smi -c 0)";
    case 100: {
      const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
      return fmt::format(
          "CUDA_VISIBLE_DEVICES is {}, expected one that names a GPU of nvidia-smi -L, and "
          "instances where MIG mode is on",
          visible ? fmt::format("\"{}\"", visible) : "not set");
    }
    case 200:
    case 209:
    case 222:
      return "the driver is older than the assembler or the PTX, or the code is for another GPU";
    case 802:
      return "the driver is not ready, expected nvidia-fabricmanager to run on a machine with NVSwitch";
    case 803:
      return "libcuda.so.1 and the driver's kernel module are of different versions, expected equal ones "
             "(/proc/driver/nvidia/version)";
    case 804:
      return "a libcuda.so.1 for compatibility is found first and does not know this GPU, expected the "
             "driver's own";
    case 999:
      return "often /dev/nvidia-uvm is missing, which nvidia-modprobe -u -c=0 makes, or the kernel module "
             "must be loaded anew";
    default:
      return "";
  }
}

}  // namespace

std::string answer_text(const Driver& driver, CUresult answer) {
  const char* name = nullptr;
  driver.error_name(answer, &name);
  const std::string cause = usual_cause(answer);
  return fmt::format("{} ({}){}{}", name ? name : "an error without a name", answer,
                     cause.empty() ? "" : ": ", cause);
}

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
    // The older function gives every MIG slice the identifier of its GPU.
    if (!look(driver.device_uuid, "cuDeviceGetUuid_v2")) look(driver.device_uuid, "cuDeviceGetUuid");
    look(driver.driver_version, "cuDriverGetVersion");
    look(driver.memory_info, "cuMemGetInfo_v2");
    find(driver.context_retain, "cuDevicePrimaryCtxRetain");
    find(driver.context_release, "cuDevicePrimaryCtxRelease_v2");
    find(driver.context_set, "cuCtxSetCurrent");
    find(driver.module_load, "cuModuleLoadData");
    find(driver.module_unload, "cuModuleUnload");
    find(driver.module_function, "cuModuleGetFunction");
    find(driver.function_get, "cuFuncGetAttribute");
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
      return "cuda: error: cuInit gave " + answer_text(driver, result);
    return {};
  }();
  if (!failure.empty()) return Error{failure};
  return &driver;
}

}  // namespace mkrt
