#include "tools/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/output.h"

namespace mkc {
namespace {

constexpr char kErase[] = "\r\x1b[K";
constexpr std::chrono::milliseconds kInterval{100};

size_t columns_of_terminal() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79;  // text in the last column would wrap on some terminals
}

}  // namespace

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(const std::string& text) {
  if (!is_terminal_) return;
  put_stderr(kErase + text.substr(0, columns_of_terminal()));
  shown_ = true;
}

void ProgressLine::count(const char* what, uint64_t done, uint64_t all, const char* unit) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || (shown_ && now < next_)) return;
  next_ = now + kInterval;
  show(fmt::format("{}: {} of {} {}", what, done, all, unit));
}

void ProgressLine::clear() {
  if (shown_) put_stderr(kErase);
  shown_ = false;
}

}  // namespace mkc
