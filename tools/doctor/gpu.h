// A GPU by the CUDA driver, for kernels that belong to no artefact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/diag.h"

namespace mkc {

class Gpu {
 public:
  // Device 0 with the kernels of `image`: a cubin, or PTX, which the driver compiles. Errors: those of the
  // driver.
  static Result<std::unique_ptr<Gpu>> open(std::string image);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Memory that is 0; lives as long as the Gpu.
  Result<uint64_t> allocate(uint64_t bytes);
  Status clear(uint64_t at, uint64_t bytes);
  Status write(uint64_t to, std::span<const uint32_t> from);
  Status read(std::span<std::byte> to, uint64_t from);

  struct Launch {
    std::string kernel;
    uint32_t blocks = 1, threads = 32, shared_bytes = 0;
    std::vector<uint64_t> arguments;  // each read with as many bytes as the kernel declares
  };
  // Runs a kernel to its end.
  Status run(const Launch& launch);

 private:
  struct State;
  explicit Gpu(std::unique_ptr<State> state);
  Status check(int result, const std::string& doing) const;
  std::unique_ptr<State> state_;
};

}  // namespace mkc
