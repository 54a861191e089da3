// Where kernels run: a GPU or the emulator, behind one interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/artefact/artefact.h"
#include "runtime/emulator/emulator.h"

namespace mkrt {

// Addresses are the device's own. One thread at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual uint64_t memory_bytes() const { return 0; }  // in all; 0: not known

  virtual Result<uint64_t> allocate(uint64_t bytes) = 0;  // aligned to 256 bytes, not cleared
  virtual void release(uint64_t address) = 0;
  virtual Status write(uint64_t to, std::span<const std::byte> from) = 0;
  virtual Status read(std::span<std::byte> to, uint64_t from) = 0;
  virtual Status clear(uint64_t at, uint64_t bytes) = 0;

  // Takes the artefact's kernels, for all launches from now on. Errors: made for another device, or needs
  // more workers at once than the device holds; the device has the kernel of another artefact.
  virtual Status load(const Artefact& artefact) = 0;

  // Runs mk_pack of the kernels taken, with the MkPack at this address. What is written later waits for it.
  virtual Status pack(uint64_t pack) = 0;

  // Work on a stream (a CUstream as an integer; 0: the default one), done there in order. These calls neither
  // allocate nor wait, but for what a first launch prepares; memory of the host comes from allocate_host and
  // is left alone until the work is done. A device without streams does everything at once.
  virtual Status enqueue_write(uint64_t /*stream*/, uint64_t to, std::span<const std::byte> from) {
    return write(to, from);
  }
  virtual Status enqueue_read(uint64_t /*stream*/, std::span<std::byte> to, uint64_t from) {
    return read(to, from);
  }
  // Runs one launch: MkSession and MkStep lie at these addresses. `steps`: as in MkStep; one kernel makes
  // them by itself, kernels of grids are launched as often.
  virtual Status launch(uint64_t stream, uint64_t session, uint64_t step, uint32_t steps) = 0;
  virtual Result<std::byte*> allocate_host(uint64_t bytes);
  virtual void release_host(std::byte* memory);

  // A mark that is put on a stream is passed when the work before it is done.
  virtual Result<uint64_t> make_mark() { return uint64_t{0}; }
  virtual void release_mark(uint64_t /*mark*/) {}
  virtual Status enqueue_mark(uint64_t /*stream*/, uint64_t /*mark*/) { return {}; }
  virtual Status wait_for_mark(uint64_t /*mark*/) { return {}; }
  virtual Status wait_for_stream(uint64_t /*stream*/) { return {}; }
  // Whether work goes into a graph, which does it whenever it is run; marks cannot be put there.
  virtual bool capturing(uint64_t /*stream*/) { return false; }
};

struct EmulatorDeviceOptions {
  uint64_t seed = 0;
  uint32_t os_threads = 1;
  bool race = false;
  uint32_t max_reports = 16;                    // see EmulatorOptions
  Disturbance disturbance{};                    // of one launch; kernels of grids are a launch each
  std::vector<Disturbed>* disturbed = nullptr;  // gets what each launch counted; may be null
};

// A device runs the kernel of one artefact.
Error has_other_kernel(const std::string& device, const Manifest& loaded, const Manifest& wanted);

// The emulator, for the kernels of one artefact. `site` names the sites of race reports (may be empty). A
// launch with a race is an error that holds the reports.
std::unique_ptr<Device> open_emulator(StepKernels kernels, const EmulatorDeviceOptions& options,
                                      std::function<std::string(uint32_t)> site = {});

// The GPU `ordinal`, by the CUDA driver, which is looked up at run time. Errors: no driver, no such device.
Result<std::unique_ptr<Device>> open_cuda(int ordinal = 0);

}  // namespace mkrt
