// Mapping holds anonymous memory in large pages, where the system has some. The memory is 0 at first.
#pragma once

#include <sys/mman.h>

#include <cstdint>

namespace mkrt {

class Mapping {
 public:
  explicit Mapping(uint64_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ != MAP_FAILED) madvise(at_, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool ok() const { return at_ != MAP_FAILED; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(at_); }

 private:
  uint64_t bytes_;
  void* at_;
};

}  // namespace mkrt
