#include "scheduler/simulate/simulate_pipe.h"

#include <algorithm>
#include <limits>

namespace mkc {
namespace {

constexpr size_t kKeptEnds = 1024;  // what has ended is removed together

}  // namespace

void Pipe::set_rate() {
  rate_ = reads() == 0 ? 0 : std::min(max_of_one_, ceiling_ / static_cast<double>(reads()));
}

void Pipe::advance(double now_ns) {
  served_ += rate_ * (now_ns - at_ns_);
  at_ns_ = now_ns;
}

void Pipe::begin(double now_ns, uint32_t reader, double bytes) {
  advance(now_ns);
  const End end{served_ + bytes, reader};
  ends_.push_back(end);
  size_t at = ends_.size() - 1;
  for (; at > ended_ && end < ends_[at - 1]; --at) ends_[at] = ends_[at - 1];
  ends_[at] = end;
  set_rate();
}

double Pipe::next_end_ns() const {
  if (reads() == 0) return std::numeric_limits<double>::infinity();
  return at_ns_ + std::max(0.0, ends_[ended_].first - served_) / rate_;
}

uint32_t Pipe::finish(double now_ns) {
  const auto [served, reader] = ends_[ended_];
  ++ended_;
  if (ended_ >= kKeptEnds && 2 * ended_ > ends_.size()) {
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<ptrdiff_t>(ended_));
    ended_ = 0;
  }
  set_rate();
  served_ = std::max(served_, served);
  at_ns_ = now_ns;
  return reader;
}

}  // namespace mkc
