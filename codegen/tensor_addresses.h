// Addresses of a step are mapped to tensor elements, for checks on the emulator.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/schedule.h"
#include "runtime/abi/abi.h"

namespace mkc {

// Elements are those at an address: one element, or the elements of 16 bytes of a packed weight. `first` and
// `last` are their smallest and largest index in each dim.
struct Elements {
  std::vector<int64_t> first, last;
  uint32_t bytes = 0;  // bytes from the address to the end of these elements
  // The elements from this one to the end of its row lie one behind the other. A packed weight has 1.
  int64_t to_row_end = 1;
  uint32_t element_bytes = 0;
};

class TensorAddresses {
 public:
  // Requires that `schedule` outlives this object.
  explicit TensorAddresses(const Schedule& schedule);

  // Prepares for a step. `values` are the step's symbols and lists, in the form that evaluate() takes. Routed
  // symbols may have any value. Requires that `session` and `step` outlive the step.
  void begin_step(const mkrt::MkSession& session, const mkrt::MkStep& step, std::span<const int64_t> values);

  // Tells whether elements of the tensor lie at the address, and sets `found` to them. Padding has no
  // elements. A page of a cache that several requests share has elements of each: `user` 0 is the first
  // request, and so on.
  bool find(TensorId tensor, uint64_t address, Elements& found, size_t user = 0);

  // Returns the first address of a tensor in this step. A cache begins at its first page.
  uint64_t begin_of(TensorId tensor) const { return extents_[tensor.index].begin; }

 private:
  struct Place {
    uint32_t row = 0, col = 0;
    bool used = false;
  };
  struct Extent {
    uint64_t begin = 0, bytes = 0;
  };
  struct Page {
    int64_t request, number;
  };

  Extent extent_of(TensorId id) const;
  bool find_plain(TensorId id, uint64_t address, Elements& found) const;
  bool find_packed(TensorId id, uint64_t address, Elements& found);
  bool find_in_cache(TensorId id, uint64_t address, Elements& found, size_t user) const;
  const std::vector<Place>& strip_places(TensorId id);

  const Schedule& schedule_;
  const mkrt::MkSession* session_ = nullptr;
  const mkrt::MkStep* step_ = nullptr;
  std::vector<std::vector<int64_t>> shapes_;               // by TensorId
  std::vector<Extent> extents_;                            // by TensorId
  std::unordered_map<uint64_t, std::vector<Page>> pages_;  // its users, by the page's number in the cache
  uint64_t pages_end_ = 0;                                 // behind the last page
  std::map<uint32_t, std::vector<Place>> strips_;  // of packed weights: what a lane's shares of a strip hold
};

}  // namespace mkc
