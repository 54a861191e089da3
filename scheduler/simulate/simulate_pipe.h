// The reads in progress share one bandwidth equally. This header is internal to simulate.
#pragma once

#include <cstdint>
#include <utility>

#include "scheduler/simulate/sorted_queue.h"

namespace mkc {

// All reads progress at one rate. Reads therefore end in the order of (bytes served before they began + their
// own bytes). Most reads have one size, so a read that begins is one of the last to end.
class Pipe {
 public:
  Pipe(double bytes_per_ns, double max_of_one) : ceiling_(bytes_per_ns), max_of_one_(max_of_one) {}

  uint32_t reads() const { return static_cast<uint32_t>(ends_.size()); }
  double bytes_per_ns() const { return rate_ * reads(); }  // current rate of all reads together

  // Begins a read of `bytes` for a reader.
  void begin(double now_ns, uint32_t reader, double bytes);
  double next_end_ns() const;      // infinite where no read is in progress
  uint32_t finish(double now_ns);  // returns the reader whose read ends next; `now_ns` is next_end_ns()

 private:
  void set_rate();  // after a change of the number of reads
  // Serves all reads up to `now_ns`.
  void advance(double now_ns);

  using End = std::pair<double, uint32_t>;  // served_ at the end, reader
  double ceiling_, max_of_one_;
  double served_ = 0;  // bytes that a read in progress since the beginning would have received
  double at_ns_ = 0;
  double rate_ = 0;  // of each read, at present
  SortedQueue<End> ends_;
};

}  // namespace mkc
