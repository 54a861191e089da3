// Doctor uses a GPU through the CUDA driver, for kernels that belong to no artefact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/diag.h"

namespace mkc {

class Gpu {
 public:
  // Opens device 0 and loads the kernels of `image`, a cubin or PTX. The driver compiles PTX. Errors: those
  // of the driver.
  static Result<std::unique_ptr<Gpu>> open(std::string image);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Returns the bytes of device memory that nobody uses, or 0 where the driver does not tell.
  uint64_t free_bytes() const;
  // Returns the address of zeroed memory, which is freed when the process ends.
  Result<uint64_t> allocate(uint64_t bytes);
  Status clear(uint64_t at, uint64_t bytes);
  Status write(uint64_t to, std::span<const uint32_t> from);
  Status read(std::span<std::byte> to, uint64_t from);

  struct Launch {
    std::string kernel;
    uint32_t blocks = 1, threads = 32, shared_bytes = 0;
    std::vector<uint64_t> arguments;  // the kernel reads as many bytes of each as it declares
  };
  // Runs a kernel and waits for its end.
  Status run(const Launch& launch);

 private:
  struct State;
  explicit Gpu(std::unique_ptr<State> state);
  Status check(int result, const std::string& doing) const;
  std::unique_ptr<State> state_;
};

}  // namespace mkc
