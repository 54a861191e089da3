// Regular expressions over UTF-8 are matched by PCRE2 with Unicode properties.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

struct pcre2_real_code_8;

namespace mkrt {

// A Span is the bytes [begin, end) of a text.
struct Span {
  size_t begin;
  size_t end;
};

// MatchTime is the time that one thread may take to encode one text. The time is the thread's processor time,
// so that other load on the machine does not count. The thread that makes a MatchTime must use it.
class MatchTime {
 public:
  // A text may take 10 s for each 100,000 bytes, and 5 s more.
  explicit MatchTime(size_t text_bytes)
      : MatchTime(std::chrono::seconds(5) + std::chrono::microseconds(100) * text_bytes) {}
  explicit MatchTime(std::chrono::nanoseconds allowed);

  bool is_over();     // reads the thread's clock
  bool count_step();  // reads the thread's clock in some of the calls, and returns whether the time is over
  // Ends the time of all texts of the process, for a program that ends.
  static void end_all();
  double seconds() const { return std::chrono::duration<double>(allowed_).count(); }

 private:
  std::chrono::nanoseconds allowed_;
  std::chrono::nanoseconds end_;  // on the clock of the thread
  uint32_t steps_ = 0;
  bool over_ = false;
};

// Regex is a compiled pattern. A Regex is immutable, so that threads may share it.
class Regex {
 public:
  // Compiles a pattern in the dialect of tokenizer.json (regex_dialect.h). Errors: an unsupported or bad
  // pattern.
  static Result<Regex> compile(std::string_view pattern);

 private:
  friend class RegexMatcher;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, Free>;
  Regex(Code plain, Code timed, std::string pattern)
      : plain_(std::move(plain)), timed_(std::move(timed)), pattern_(std::move(pattern)) {}

  Code plain_, timed_;   // `timed_` calls back where nothing matches
  std::string pattern_;  // as it was given
};

// RegexMatcher is one thread's working memory for one pattern. The pattern must outlive it.
class RegexMatcher {
 public:
  explicit RegexMatcher(const Regex& regex);
  ~RegexMatcher();

  // Sets `spans` to all matches, left to right and without overlap. An empty match directly behind another
  // match is omitted. Requires valid UTF-8. Errors: the pattern needs more steps or memory than a match may
  // use, or the time is over. The limit of steps holds for each place where a match may begin.
  Status find_all(std::string_view text, std::vector<Span>& spans, MatchTime& time);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mkrt
