// A queue whose entries leave in ascending order. This header is internal to simulate.
#pragma once

#include <cstddef>
#include <vector>

namespace mkc {

// SortedQueue inserts an entry from its end on, as most entries of a simulation come after nearly all others.
template <class T>
class SortedQueue {
 public:
  size_t size() const { return entries_.size() - removed_; }
  bool empty() const { return size() == 0; }
  const T& first() const { return entries_[removed_]; }  // requires an entry

  void add(const T& entry) {
    entries_.push_back(entry);
    size_t at = entries_.size() - 1;
    for (; at > removed_ && entry < entries_[at - 1]; --at) entries_[at] = entries_[at - 1];
    entries_[at] = entry;
  }

  // Requires an entry.
  void remove_first() {
    ++removed_;
    if (removed_ < kKept || 2 * removed_ <= entries_.size()) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(removed_));
    removed_ = 0;
  }

 private:
  static constexpr size_t kKept = 1024;  // removed entries leave the memory together

  size_t removed_ = 0;  // entries at the front of entries_
  std::vector<T> entries_;
};

}  // namespace mkc
