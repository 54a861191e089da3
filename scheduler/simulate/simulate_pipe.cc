#include "scheduler/simulate/simulate_pipe.h"

#include <algorithm>
#include <limits>

namespace mkc {

double Pipe::rate() const {
  return ends_.empty() ? 0 : std::min(max_of_one_, ceiling_ / static_cast<double>(ends_.size()));
}

void Pipe::advance(double now_ns) {
  served_ += rate() * (now_ns - at_ns_);
  at_ns_ = now_ns;
}

void Pipe::begin(double now_ns, uint32_t reader, double bytes) {
  advance(now_ns);
  const End end{served_ + bytes, reader};
  auto at = ends_.end();
  while (at != ends_.begin() && end < *(at - 1)) --at;
  ends_.insert(at, end);
}

double Pipe::next_end_ns() const {
  if (ends_.empty()) return std::numeric_limits<double>::infinity();
  return at_ns_ + std::max(0.0, ends_.front().first - served_) / rate();
}

uint32_t Pipe::finish(double now_ns) {
  const auto [served, reader] = ends_.front();
  ends_.pop_front();
  served_ = std::max(served_, served);
  at_ns_ = now_ns;
  return reader;
}

}  // namespace mkc
