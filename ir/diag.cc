#include "ir/diag.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "ir/source_line.h"

namespace mkc {
namespace {

constexpr int kBugExit = 70;

// Returns line `number` (from 1) of `text` without its end, or "" if there is no such line.
std::string_view line_of(std::string_view text, uint32_t number) {
  for (; number > 1; --number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Returns the smallest number of single-character insertions, deletions and substitutions (Levenshtein 1966).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

Error error_at(const Loc& loc, std::string_view message, std::string_view source) {
  if (!loc.known()) return {fmt::format("{}: error: {}", loc.file, message)};
  std::string text = fmt::format("{}:{}:{}: error: {}", loc.file, loc.line, loc.col, message);
  const std::string_view line = line_of(source, loc.line);
  if (!line.empty()) text += "\n" + line_with_caret(line, loc.col);
  return {std::move(text)};
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  size_t min = name.size() / 3 + 2;  // a greater distance means another word, not a slip
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < min) min = distance, nearest = candidate;
  }
  return nearest;
}

void bug(const char* file, int line, const std::string& message) {
  fmt::print(stderr, "{}:{}: compiler bug: {}\n", file, line, message);
  static std::atomic<std::thread::id> exits;
  std::thread::id none;
  if (exits.compare_exchange_strong(none, std::this_thread::get_id())) std::exit(kBugExit);
  if (none == std::this_thread::get_id()) std::_Exit(kBugExit);  // a bug of what exit() calls
  // Two threads must not call exit(). The first one ends this thread, too.
  for (;;) pause();
}

}  // namespace mkc
