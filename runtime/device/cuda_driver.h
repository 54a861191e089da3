// The CUDA driver is looked up at first use, function by function.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// The driver API as its documentation declares it (CUDA Driver API, "Modules"). Handles are opaque.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using Handle = void*;

constexpr CUresult kTooManyBlocks = 720;  // CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
// CUdevice_attribute
constexpr int kAttributeClockKhz = 13, kAttributeSms = 16, kAttributeTimeLimit = 17,
              kAttributeComputeMode = 20, kAttributeMemoryKhz = 36, kAttributeBusBits = 37,
              kAttributeL2Bytes = 38, kAttributeMajor = 75, kAttributeMinor = 76, kAttributeCooperative = 95,
              kAttributeSharedOptIn = 97;
constexpr int kFunctionRegisters = 4, kFunctionDynamicShared = 8;  // CUfunction_attribute
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventNoTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr int kCaptureOfThread = 1;     // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

struct LaunchAttribute {  // CUlaunchAttribute, with a value of one int
  int id;
  int pad;
  int value[16];
};
// The CUDA version whose drivers put launches that may overlap into graphs.
constexpr int kCapturesOverlap = 12030;
constexpr int kMayOverlap = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Handle stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct Driver {
  CUresult (*init)(unsigned flags);
  CUresult (*error_name)(CUresult, const char** name);
  CUresult (*device_get)(CUdevice*, int ordinal);
  CUresult (*device_count)(int*);
  CUresult (*device_name)(char* name, int bytes, CUdevice);
  CUresult (*device_attribute)(int* value, int attribute, CUdevice);
  CUresult (*device_memory)(size_t* bytes, CUdevice);
  CUresult (*device_uuid)(unsigned char* uuid, CUdevice);  // 16 bytes; the function may be null
  CUresult (*driver_version)(int*);                        // the function may be null
  CUresult (*memory_info)(size_t* free, size_t* all);      // of the context; the function may be null
  CUresult (*context_retain)(Handle* context, CUdevice);
  CUresult (*context_release)(CUdevice);
  CUresult (*context_set)(Handle context);
  CUresult (*module_load)(Handle* module, const void* image);
  CUresult (*module_unload)(Handle module);
  CUresult (*module_function)(Handle* function, Handle module, const char* name);
  CUresult (*function_get)(int* value, int attribute, Handle function);
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
  CUresult (*launch)(const LaunchConfig*, Handle function, void** arguments, void** extra);
  CUresult (*host_alloc)(void** memory, size_t bytes);
  CUresult (*host_free)(void* memory);
  CUresult (*copy_in_async)(CUdeviceptr to, const void* from, size_t bytes, Handle stream);
  CUresult (*copy_out_async)(void* to, CUdeviceptr from, size_t bytes, Handle stream);
  CUresult (*copy_async)(CUdeviceptr to, CUdeviceptr from, size_t bytes, Handle stream);
  CUresult (*event_create)(Handle* event, unsigned flags);
  CUresult (*event_destroy)(Handle event);
  CUresult (*event_record)(Handle event, Handle stream);
  CUresult (*event_wait)(Handle event);
  CUresult (*stream_wait)(Handle stream);
  CUresult (*stream_capturing)(Handle stream, int* status);
  CUresult (*stream_create)(Handle* stream, unsigned flags);
  CUresult (*stream_destroy)(Handle stream);
  CUresult (*capture_begin)(Handle stream, int mode);
  CUresult (*capture_end)(Handle stream, Handle* graph);
  CUresult (*graph_instantiate)(Handle* executable, Handle graph, unsigned long long flags);
  CUresult (*graph_destroy)(Handle graph);
  CUresult (*graph_launch)(Handle executable, Handle stream);
  CUresult (*executable_destroy)(Handle executable);
};

// Returns an answer's name and number, and its usual cause where the name does not say it:
// "CUDA_ERROR_UNKNOWN (999): …". Requires that the driver has error_name.
std::string answer_text(const Driver& driver, CUresult answer);

// Returns the process's one driver. Errors: no driver, a driver that is too old, a driver that cannot start.
Result<const Driver*> load_driver();

}  // namespace mkrt
