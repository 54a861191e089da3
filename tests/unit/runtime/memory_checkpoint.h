#pragma once

#include <random>
#include <vector>

#include "runtime/artefact/safetensors.h"

namespace mkrt {

// Memory is a checkpoint in memory. The tensors hold random bits. Scales are below 2, and so finite.
struct Memory {
  Checkpoint checkpoint;
  std::vector<std::vector<std::byte>> storage;

  explicit Memory(const std::vector<StoredTensor>& tensors) {
    std::mt19937 random(3);
    for (StoredTensor t : tensors) {
      const uint64_t element = t.dtype == "F32" || t.dtype == "I32" ? 4 : t.dtype == "F8_E4M3" ? 1 : 2;
      uint64_t bytes = element;
      for (int64_t size : t.shape) bytes *= static_cast<uint64_t>(size);
      std::vector<std::byte>& data = storage.emplace_back(bytes);
      for (std::byte& b : data) b = static_cast<std::byte>(random());
      for (size_t last = element - 1; t.name.find("_scale") != std::string::npos && last < data.size();
           last += element)
        data[last] &= std::byte{0xbf};
      t.bytes = data;
      checkpoint.tensors.push_back(t);
    }
  }
};

}  // namespace mkrt
