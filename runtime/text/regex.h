// Regular expressions over UTF-8, by PCRE2 with Unicode properties.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

struct pcre2_real_code_8;

namespace mkrt {

// Bytes [begin, end) of a text.
struct Span {
  size_t begin;
  size_t end;
};

// A compiled pattern; immutable, so that threads may share it.
class Regex {
 public:
  // The pattern is of the dialect that tokenizer.json is written in: see regex_dialect.h.
  static Result<Regex> compile(std::string_view pattern);

 private:
  friend class RegexMatcher;
  explicit Regex(pcre2_real_code_8* code) : code_(code) {}

  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

// The working memory of one thread for matching one pattern, which must outlive it.
class RegexMatcher {
 public:
  explicit RegexMatcher(const Regex& regex);
  ~RegexMatcher();

  // Sets spans to all matches, left to right and not overlapping; an empty match directly behind another
  // match is left out. Requires valid UTF-8. An error if the pattern needs more steps or memory than a match
  // is given.
  Status find_all(std::string_view text, std::vector<Span>& spans);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mkrt
