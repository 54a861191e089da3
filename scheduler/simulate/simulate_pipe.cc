#include "scheduler/simulate/simulate_pipe.h"

#include <algorithm>
#include <limits>

namespace mkc {

void Pipe::set_rate() {
  rate_ = reads() == 0 ? 0 : std::min(max_of_one_, ceiling_ / static_cast<double>(reads()));
}

void Pipe::advance(double now_ns) {
  served_ += rate_ * (now_ns - at_ns_);
  at_ns_ = now_ns;
}

void Pipe::begin(double now_ns, uint32_t reader, double bytes) {
  advance(now_ns);
  ends_.add({served_ + bytes, reader});
  set_rate();
}

double Pipe::next_end_ns() const {
  if (reads() == 0) return std::numeric_limits<double>::infinity();
  return at_ns_ + std::max(0.0, ends_.first().first - served_) / rate_;
}

uint32_t Pipe::finish(double now_ns) {
  const auto [served, reader] = ends_.first();
  ends_.remove_first();
  set_rate();
  served_ = std::max(served_, served);
  at_ns_ = now_ns;
  return reader;
}

}  // namespace mkc
