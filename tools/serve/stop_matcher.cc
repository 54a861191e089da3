#include "tools/serve/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace mkc {

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  held_ += text;
  size_t begin = 0, end = held_.npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    const size_t at = held_.find(stop, std::max(unsearched_ + 1, stop.size()) - stop.size());
    if (at == held_.npos || at + stop.size() > end || (at + stop.size() == end && at >= begin)) continue;
    begin = at, end = at + stop.size(), matched_ = i;
  }
  return take(matched() ? (include_ ? end : begin) : held_from());
}

std::string StopMatcher::push_unsearched(std::string_view text) {
  if (matched()) return {};
  held_ += text;
  unsearched_ = held_.size();
  return take(held_from());
}

// Takes the first bytes of the text that is held back.
std::string StopMatcher::take(size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  unsearched_ -= std::min(unsearched_, bytes);
  return out;
}

std::string StopMatcher::finish() {
  std::string rest = std::exchange(held_, {});
  return matched() ? std::string() : rest;
}

// Returns where the longest suffix begins that is the beginning of a stop string.
size_t StopMatcher::held_from() const {
  size_t longest = 0;
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > longest; --size)
      if (held_.ends_with(std::string_view(stop).substr(0, size))) longest = size;
  return held_.size() - longest;
}

}  // namespace mkc
