// A terminal shows a line of progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mkc {

constexpr uint64_t kMega = 1'000'000;  // bytes that progress counts as one MB

// ProgressLine is a line of standard error that is rewritten in place, and erased when it ends. Nothing is
// written unless standard error is a terminal. Other output must wait for clear().
class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  // Writes the text in the place of the last one, cut to the width of the terminal.
  void show(const std::string& text);
  // Does as show() for "WHAT: 3 of 9 UNIT", but at most ten times a second.
  void count(const char* what, uint64_t done, uint64_t all, const char* unit);
  void clear();

 private:
  bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_{};  // of count()
};

}  // namespace mkc
