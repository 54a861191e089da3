// The CUDA Driver API has a device, its context, modules and memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/softgpu/api.h"

using namespace softgpu;

namespace {

int the_context;  // the primary context's handle points here
bool initialised = false;
thread_local bool has_context = false;  // the primary context is the thread's current one

constexpr size_t kMemoryBytes = size_t{4} << 30;

using Lock = std::lock_guard<std::mutex>;

// Returns the error that the settings ask for, of a call with this name.
int answer(const char* call) {
  return static_cast<int>(driver().settings.said(call, kSuccess));
}

void print_statistics() {
  const Machine& m = driver().machine;
  const Statistics& s = m.statistics;
  const auto count = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::fprintf(
      stderr,
      "softgpu: %llu launches, %llu warp instructions, %llu thread instructions in %.2f s: %.1f million a "
      "second\n"
      "softgpu: %llu barriers, %llu bulk copies, %llu cp.async, %llu mma, %llu wgmma, %llu loads of old "
      "values, %zu findings\n",
      count(s.launches), count(s.warp_instructions), count(s.lane_instructions), s.seconds,
      s.seconds > 0 ? static_cast<double>(s.lane_instructions) / s.seconds / 1e6 : 0.0, count(s.barriers),
      count(s.bulk_copies), count(s.async_copies), count(s.products), count(s.wgmma), count(s.stale_loads),
      m.findings.size());
}

void write_coverage() {
  const Machine& m = driver().machine;
  std::ofstream file(m.settings.coverage);
  for (size_t line = 0; line < m.executed.size(); ++line)
    if (m.executed[line]) file << line << '\n';
}

void write_banks() {
  const Machine& m = driver().machine;
  std::ofstream file(m.settings.banks);
  for (const auto& [line, count] : m.banks)
    file << line << ' ' << count.accesses << ' ' << count.wavefronts << ' ' << count.min << '\n';
}

// Registers the reports that the settings ask for at the end of the program.
bool say_at_exit() {
  if (driver().settings.statistics) std::atexit(print_statistics);
  if (!driver().settings.coverage.empty()) std::atexit(write_coverage);
  if (!driver().settings.banks.empty()) std::atexit(write_banks);
  return true;
}

}  // namespace

int softgpu::uninitialised() {
  return initialised ? kSuccess : kNotInitialized;
}
int softgpu::unusable() {
  return initialised && !has_context ? kInvalidContext : uninitialised();
}

SOFTGPU_API cuInit(unsigned) {
  static const bool once = say_at_exit();
  (void)once;
  if (const std::string& error = driver().settings.error; !error.empty()) {
    std::fprintf(stderr, "softgpu: error: %s\n", error.c_str());
    return kUnknown;
  }
  const int error = answer("cuInit");
  initialised |= error == kSuccess;
  return error;
}
SOFTGPU_API cuDriverGetVersion(int* version) {
  return *version = static_cast<int>(driver().settings.said("driver", 13000)), kSuccess;
}

SOFTGPU_API cuGetErrorName(int code, const char** name) {
  static const std::map<int, const char*> names{
      {kSuccess, "CUDA_SUCCESS"},
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {kStubLibrary, "CUDA_ERROR_STUB_LIBRARY"},
      {kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kUnsupportedPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kNotReady, "CUDA_ERROR_NOT_READY"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {kTooManyBlocks, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
      {kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {kDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {kUnknown, "CUDA_ERROR_UNKNOWN"}};
  const auto at = names.find(code);
  *name = at == names.end() ? nullptr : at->second;
  return *name ? kSuccess : kInvalidValue;
}

SOFTGPU_API cuDeviceGetCount(int* count) {
  if (const int error = uninitialised()) return error;
  return *count = 1, kSuccess;
}
SOFTGPU_API cuDeviceGet(int* device, int ordinal) {
  if (const int error = uninitialised()) return error;
  if (ordinal != 0) return kInvalidDevice;
  return *device = 0, kSuccess;
}
SOFTGPU_API cuDeviceGetName(char* name, int bytes, int) {
  if (const int error = uninitialised()) return error;
  const Settings& s = driver().settings;
  return std::snprintf(name, static_cast<size_t>(bytes), "software GPU sm_%u%u", s.major, s.minor), kSuccess;
}
SOFTGPU_API cuDeviceGetAttribute(int* value, int attribute, int) {
  if (const int error = uninitialised()) return error;
  const Settings& s = driver().settings;
  const std::map<int, uint32_t> values{{1, 1024},
                                       {10, 32},
                                       {13, 1000000},
                                       {16, s.sms},
                                       {20, static_cast<uint32_t>(s.said("compute_mode", 0))},
                                       {36, 1000000},
                                       {37, s.bus_bits},
                                       {38, static_cast<uint32_t>(s.l2_bytes)},
                                       {75, s.major},
                                       {76, s.minor},
                                       {95, 1},
                                       {97, driver().max_shared()}};
  const auto at = values.find(attribute);
  *value = at == values.end() ? 0 : static_cast<int>(at->second);
  return kSuccess;
}
SOFTGPU_API cuDeviceGetUuid_v2(unsigned char* uuid, int) {
  if (const int error = uninitialised()) return error;
  const Settings& s = driver().settings;
  std::memcpy(uuid, "software GPU   ", 16);
  uuid[13] = static_cast<unsigned char>(s.major), uuid[14] = static_cast<unsigned char>(s.minor);
  uuid[15] = static_cast<unsigned char>(s.sms);
  return kSuccess;
}
SOFTGPU_API cuDeviceGetPCIBusId(char* id, int bytes, int) {
  if (const int error = uninitialised()) return error;
  return std::snprintf(id, static_cast<size_t>(bytes), "0000:00:00.0"), kSuccess;
}
SOFTGPU_API cuDeviceTotalMem_v2(size_t* bytes, int) {
  if (const int error = uninitialised()) return error;
  return *bytes = kMemoryBytes, kSuccess;
}
SOFTGPU_API cuDevicePrimaryCtxRetain(void** context, int) {
  if (const int error = uninitialised()) return error;
  return *context = &the_context, answer("cuDevicePrimaryCtxRetain");
}
SOFTGPU_API cuDevicePrimaryCtxRelease_v2(int) {
  if (const int error = uninitialised()) return error;
  return kSuccess;
}
SOFTGPU_API cuCtxSetCurrent(void* context) {
  if (const int error = uninitialised()) return error;
  if (context && context != &the_context) return kInvalidContext;
  has_context = context != nullptr;
  return kSuccess;
}
SOFTGPU_API cuCtxSynchronize() {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  return driver().finish_all();
}

SOFTGPU_API cuModuleLoadData(void** module, const void* image) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (const int said = answer("cuModuleLoadData")) return said;
  return driver().load_module(image, reinterpret_cast<LoadedModule**>(module));
}
SOFTGPU_API cuModuleUnload(void*) {
  if (const int error = unusable()) return error;
  return kSuccess;
}
SOFTGPU_API cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int error = unusable()) return error;
  auto& functions = static_cast<LoadedModule*>(module)->functions;
  const auto at = functions.find(name);
  if (at == functions.end()) return kNotFound;
  return *function = &at->second, kSuccess;
}
SOFTGPU_API cuFuncGetAttribute(int* value, int attribute, void* function) {
  if (const int error = unusable()) return error;
  const auto* f = static_cast<Function*>(function);
  *value = attribute == 4   ? static_cast<int>(f->kernel->registers_per_thread)
           : attribute == 8 ? static_cast<int>(f->dynamic_shared)
                            : 0;
  return kSuccess;
}
SOFTGPU_API cuFuncSetAttribute(void* function, int attribute, int value) {
  if (const int error = unusable()) return error;
  if (attribute != 8 || value < 0 || static_cast<uint32_t>(value) > driver().max_shared())
    return kInvalidValue;
  static_cast<Function*>(function)->dynamic_shared = static_cast<uint32_t>(value);
  return kSuccess;
}
SOFTGPU_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads,
                                                        size_t shared) {
  if (const int error = unusable()) return error;
  const auto* f = static_cast<Function*>(function);
  if (threads <= 0 || shared > f->dynamic_shared) return kInvalidValue;
  *blocks = static_cast<int>(
      driver().blocks_per_sm(*f, static_cast<uint32_t>(threads), static_cast<uint32_t>(shared)));
  return kSuccess;
}

SOFTGPU_API cuMemGetInfo_v2(size_t* free, size_t* all) {
  if (const int error = unusable()) return error;
  *free = static_cast<size_t>(driver().settings.said("free", kMemoryBytes));
  return *all = kMemoryBytes, kSuccess;
}
SOFTGPU_API cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (bytes == 0) return kInvalidValue;
  if (driver().capturing()) return kCaptureUnsupported;
  if (bytes > driver().settings.said("free", kMemoryBytes)) return kOutOfMemory;
  DeviceMemory& memory = driver().machine.memory;
  *address = memory.allocate(bytes);
  if (*address) return kSuccess;
  std::fprintf(
      stderr,
      "softgpu: error: found no memory for %zu bytes beside %zu allocations, of which each takes two of "
      "the process's vm.max_map_count maps\n",
      bytes, memory.allocations());
  return kOutOfMemory;
}
SOFTGPU_API cuMemFree_v2(unsigned long long address) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (driver().capturing()) return kCaptureUnsupported;
  if (const int error = driver().finish_all()) return error;
  return driver().machine.memory.release(address) ? kSuccess : kInvalidValue;
}
SOFTGPU_API cuMemAllocHost_v2(void** memory, size_t bytes) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  *memory = std::malloc(bytes ? bytes : 1);
  if (!*memory) return kOutOfMemory;
  std::memset(*memory, 0xff, bytes);
  driver().pinned_memory[*memory] = bytes;
  return kSuccess;
}
SOFTGPU_API cuMemFreeHost(void* memory) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (const int error = driver().finish_all()) return error;
  if (driver().pinned_memory.erase(memory) == 0) return kInvalidValue;
  return std::free(memory), kSuccess;
}

namespace {

struct Bytes {
  unsigned long long begin;
  size_t count;
};

// Returns work on device memory. Memory that the program has freed by then is an illegal address.
Work work_on(std::vector<Bytes> memory, std::function<void()> act) {
  Work work;
  work.act = [memory = std::move(memory), act = std::move(act)] {
    for (const Bytes& m : memory)
      if (!driver().on_device(m.begin, m.count)) {
        if (driver().machine.error.empty())
          driver().machine.error = "a copy or fill of an illegal address, whose memory was freed";
        return;
      }
    act();
  };
  return work;
}

bool all_on_device(const std::vector<Bytes>& memory) {
  return std::ranges::all_of(memory, [](const Bytes& m) { return driver().on_device(m.begin, m.count); });
}

// A copy reads or writes page-locked memory when its turn comes. A copy reads or writes other memory before
// the call returns.
int do_in_stream(void* stream, const std::vector<Bytes>& memory, std::function<void()> act) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (!all_on_device(memory)) return kInvalidValue;
  return driver().put(static_cast<Stream*>(stream), work_on(memory, std::move(act)));
}

// Does the same, and waits for the stream.
int do_and_wait(void* stream, const std::vector<Bytes>& memory, std::function<void()> act) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  if (!all_on_device(memory)) return kInvalidValue;
  return driver().put_and_finish(static_cast<Stream*>(stream), work_on(memory, std::move(act)));
}

}  // namespace

// Copies and fills without a stream belong to the default stream. The program waits for copies, and not for
// fills.
SOFTGPU_API cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  return do_and_wait(nullptr, {{to, bytes}}, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
SOFTGPU_API cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t bytes) {
  return do_and_wait(nullptr, {{from, bytes}},
                     [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}
SOFTGPU_API cuMemsetD8_v2(unsigned long long at, unsigned char value, size_t bytes) {
  return do_in_stream(nullptr, {{at, bytes}},
                      [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
}
SOFTGPU_API cuMemsetD32_v2(unsigned long long at, unsigned value, size_t words) {
  return do_in_stream(nullptr, {{at, 4 * words}},
                      [=] { std::fill_n(reinterpret_cast<unsigned*>(at), words, value); });
}
SOFTGPU_API cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  if (!driver().pinned(from)) {
    const auto* begin = static_cast<const char*>(from);
    const std::vector<char> copy(begin, begin + bytes);
    return do_in_stream(stream, {{to, bytes}},
                        [=] { std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size()); });
  }
  return do_in_stream(stream, {{to, bytes}}, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
SOFTGPU_API cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  return do_in_stream(stream, {{to, bytes}, {from, bytes}}, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}
SOFTGPU_API cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  const auto copy = [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); };
  return driver().pinned(to) ? do_in_stream(stream, {{from, bytes}}, copy)
                             : do_and_wait(stream, {{from, bytes}}, copy);
}
