// Stop strings are looked for in a text that arrives in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mkc {

// StopMatcher ends a text at the stop string that is complete first. The longest counts of those that are
// complete at the same place. The result does not depend on how the text is cut into pieces.
class StopMatcher {
 public:
  // No string may be empty. `include` keeps the stop string in the text.
  StopMatcher(std::vector<std::string> stops, bool include) : stops_(std::move(stops)), include_(include) {}

  // Returns the text that is certain now. A suffix that may be the beginning of a stop string is held back.
  // Returns nothing after a stop string.
  std::string push(std::string_view text);
  // Does the same with text in which no stop string may end. One that ends in later text may begin there.
  std::string push_unsearched(std::string_view text);
  // Returns the text held back, at the end.
  std::string finish();

  // Returns the stop string that ended the text, or null.
  const std::string* matched() const { return matched_ == kNone ? nullptr : &stops_[matched_]; }

 private:
  size_t held_from() const;
  std::string take(size_t bytes);

  std::vector<std::string> stops_;
  bool include_;
  std::string held_;
  size_t unsearched_ = 0;  // the first bytes of held_, in which no stop string ends
  static constexpr size_t kNone = ~size_t{0};
  size_t matched_ = kNone;  // index in stops_
};

}  // namespace mkc
