#include "tools/line_reader.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mkc {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr int kReadsAtOnce = 16;  // reads of a call that does not wait

}  // namespace

std::optional<std::string> LineReader::take_line() {
  const size_t end = text_.find('\n', searched_);
  searched_ = text_.size();
  if (end == text_.npos && !(closed_ && !text_.empty())) return {};
  std::string line = text_.substr(0, end);
  text_.erase(0, end == text_.npos ? end : end + 1);
  searched_ = 0;
  ++number_;
  return line;
}

void LineReader::skip_rest_of_line() {
  const size_t end = text_.find('\n');
  skips_ = end == text_.npos && !closed_;
  text_.erase(0, end == text_.npos ? end : end + 1);
  searched_ = 0;
}

mkrt::Error LineReader::failure(const char* what) {
  failed_ = true;
  return {fmt::format("{}: error: {}: {}", name_, what, std::strerror(errno))};
}

mkrt::Error LineReader::too_long() const {
  return {fmt::format("{}:{}: error: found a line of more than {} bytes, expected a shorter one", name_,
                      number_, kMaxLineBytes)};
}

mkrt::Result<std::optional<std::string>> LineReader::next(bool wait, int wake) {
  for (int reads = 0;; ++reads) {
    if (skips_) skip_rest_of_line();
    std::optional<std::string> line = take_line();
    if (line && line->size() > kMaxLineBytes) return too_long();
    if (line || closed_) return line;
    if (text_.size() > kMaxLineBytes) {
      skips_ = true;
      ++number_;
      return too_long();
    }
    if (!wait && reads == kReadsAtOnce) return std::optional<std::string>();
    std::array<pollfd, 2> ready{{{descriptor_, POLLIN, 0}, {wake, POLLIN, 0}}};
    const int count = poll(ready.data(), ready.size(), wait ? -1 : 0);
    if (count < 0 && errno != EINTR) return failure("cannot wait for it");
    if (count == 0 || ready[1].revents != 0) return std::optional<std::string>();
    if (count < 0) continue;
    std::array<char, 65536> bytes;
    const ssize_t got = read(descriptor_, bytes.data(), bytes.size());
    if (got < 0 && errno != EINTR && errno != EAGAIN) return failure("cannot be read");
    if (got == 0) closed_ = true;
    if (got > 0) text_.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace mkc
