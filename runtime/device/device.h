// The interface to what runs kernels: a GPU, the processor or the emulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/artefact/artefact.h"
#include "runtime/base/file.h"
#include "runtime/device/container_limits.h"
#include "runtime/emulator/emulator.h"

namespace mkrt {

// Addresses are the device's own. One thread at a time may call a device.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual uint64_t memory_bytes() const { return 0; }  // total; 0: not known

  // Returns the limits of the container that allocate() takes its memory from.
  virtual ContainerLimits limits() const { return {}; }

  virtual Result<uint64_t> allocate(uint64_t bytes) = 0;  // aligned to 256 bytes, not cleared
  virtual void release(uint64_t address) = 0;
  // Returns memory with the bytes of a mapped file from `offset` on, a multiple of 4096. Kernels may only
  // read this memory. The device may use the mapping itself, and then keeps it until release().
  virtual Result<uint64_t> hold(const MappedFile& file, uint64_t offset);
  // Tells whether the device's addresses are those of this process, and its work is done when a call returns.
  // write(), clear() and pack() then take any of the process's memory.
  virtual bool shares_memory() const { return false; }
  virtual Status write(uint64_t to, std::span<const std::byte> from) = 0;
  virtual Status read(std::span<std::byte> to, uint64_t from) = 0;
  virtual Status clear(uint64_t at, uint64_t bytes) = 0;

  // Loads the artefact's kernels for all launches from now on. Errors: the artefact is for another device, or
  // another artefact is loaded. More workers than the device can hold at once are an error, too.
  virtual Status load(const Artefact& artefact) = 0;
  // Tells whether an artefact is loaded.
  virtual bool loaded() const = 0;
  // Takes the loaded artefact's kernels away, so that another artefact can be loaded. Requires that no
  // session of the artefact is left. Without a loaded artefact it has no effect.
  virtual void unload() = 0;

  // Runs mk_pack of the loaded kernels with the MkPack at this address. Later writes wait for it.
  virtual Status pack(uint64_t pack) = 0;

  // The functions of this group put work on a stream, which does it in order. A stream is a CUstream as an
  // integer, and 0 is the default stream.
  //
  // The enqueue functions and launch() neither allocate nor wait, apart from preparations of a first launch.
  // Host memory comes from allocate_host and must stay unchanged until the work is done. A device without
  // streams does the work at once.
  virtual Status enqueue_write(uint64_t /*stream*/, uint64_t to, std::span<const std::byte> from) {
    return write(to, from);
  }
  virtual Status enqueue_read(uint64_t /*stream*/, std::span<std::byte> to, uint64_t from) {
    return read(to, from);
  }
  // Copies from one place of the device's memory to another. The places do not overlap.
  virtual Status enqueue_copy(uint64_t stream, uint64_t to, uint64_t from, uint64_t bytes);
  // Runs one launch. MkSession and MkStep lie at the addresses `session` and `step`. `steps` equals
  // MkStep::steps: one kernel makes all steps itself, but kernels of grids are launched anew for each step.
  virtual Status launch(uint64_t stream, uint64_t session, uint64_t step, uint32_t steps) = 0;
  virtual Result<std::byte*> allocate_host(uint64_t bytes);
  virtual void release_host(std::byte* memory);

  // A mark on a stream is passed when the work before it is done.
  virtual Result<uint64_t> make_mark() { return uint64_t{0}; }
  virtual void release_mark(uint64_t /*mark*/) {}
  virtual Status enqueue_mark(uint64_t /*stream*/, uint64_t /*mark*/) { return {}; }
  virtual Status wait_for_mark(uint64_t /*mark*/) { return {}; }
  virtual Status wait_for_stream(uint64_t /*stream*/) { return {}; }
  // Tells whether the device has streams beside 0, and graphs that capture them.
  virtual bool has_streams() const { return false; }
  // Tells whether work on the stream is captured into a graph, which does the work each time it runs. Marks
  // cannot be captured.
  virtual bool capturing(uint64_t /*stream*/) { return false; }
};

struct EmulatorDeviceOptions {
  uint64_t seed = 0;
  uint32_t os_threads = 1;
  bool race = false;
  uint32_t max_reports = 16;                    // see EmulatorOptions
  Disturbance disturbance{};                    // in one launch; each kernel of a grid is a launch of its own
  std::vector<Disturbed>* disturbed = nullptr;  // receives the counts of each launch; may be null
};

// Returns the error of a device that has another artefact's kernel loaded.
Error has_other_kernel(const std::string& device, const Manifest& loaded, const Manifest& wanted);

// Returns the emulator for the kernels of one artefact. `site` names the sites of race reports; it may be
// empty. A launch with a race returns an error that holds the reports.
std::unique_ptr<Device> open_emulator(StepKernels kernels, const EmulatorDeviceOptions& options,
                                      std::function<std::string(uint32_t)> site = {});

// Returns the processor as a device, for artefacts of processor_targets(). Each worker is a thread, and
// worker 0 is the caller of launch().
std::unique_ptr<Device> open_processor();

// Returns GPU `ordinal`, driven by the CUDA driver, which is looked up at run time. Errors: no driver, no
// such device.
Result<std::unique_ptr<Device>> open_cuda(int ordinal = 0);

}  // namespace mkrt
