// TokenRate says how fast tokens come.
#pragma once

#include <chrono>
#include <cstddef>

namespace mkc {

// TokenRate leaves out the first launch's tokens, which wait for the prompt.
class TokenRate {
 public:
  // Takes the tokens that have come together.
  void took(size_t tokens) {
    last_ = std::chrono::steady_clock::now();
    if (!begun_) first_ = last_;
    (begun_ ? later_ : first_tokens_) += tokens;
    begun_ = true;
  }
  size_t tokens() const { return first_tokens_ + later_; }
  // Returns tokens a second after the first launch, or 0 where there is no later one.
  double per_second() const {
    const double seconds = std::chrono::duration<double>(last_ - first_).count();
    return seconds > 0 ? static_cast<double>(later_) / seconds : 0;
  }

 private:
  std::chrono::steady_clock::time_point first_{}, last_{};
  bool begun_ = false;
  size_t first_tokens_ = 0, later_ = 0;
};

}  // namespace mkc
