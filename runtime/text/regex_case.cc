#include "runtime/text/regex_case.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

constexpr char32_t kBehindFolds = 0xFB18;  // no later character has a case folding of several characters

Error differs(std::string_view what, size_t at, std::string_view why) {
  return Error{fmt::format("unsupported {} at byte {} of the pattern: {}", what, at, why)};
}

Error many_characters(std::string_view what, size_t at) {
  return differs(what, at, "(?i: lets it match another number of characters in one dialect only");
}

// Returns the full case folding of a character (Unicode's CaseFolding.txt, entries C and F).
std::u32string fold(char32_t c) {
  constexpr int kLongest = 4;
  utf8proc_int32_t parts[kLongest];
  int unused_bound_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kLongest,
                                                         UTF8PROC_CASEFOLD, &unused_bound_class);
  return {parts, parts + std::max<utf8proc_ssize_t>(count, 0)};
}

std::vector<std::u32string> folds_to_many() {
  std::vector<std::u32string> folds;
  for (char32_t c = 0x80; c < kBehindFolds; ++c)
    if (std::u32string folded = fold(c); folded.size() > 1) folds.push_back(std::move(folded));
  return folds;
}

std::string utf8(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) append_utf8(c, bytes);
  return bytes;
}

}  // namespace

Status CaseCheck::next(std::string_view token, size_t at, bool in_class) {
  if (token.size() > 1 && token[0] == '\\') return escape(token, at, in_class);
  if (in_class && token != "]") return literal(first_code_point(token), token, at, in_class);
  last_.reset();
  range_from_.reset();
  if (token[0] == '(') {
    groups_.push_back(token == "(?i:" || ignores_case());
    if (ignores_case() && folds_.empty()) folds_ = folds_to_many();
    if (token != "(?:" && token != "(?i:") folded_.clear();
    return {};
  }
  if (token == ")") {  // Oniguruma joins a plain group's text with that beside it
    if (!groups_.empty()) groups_.pop_back();
    return {};
  }
  if (std::string_view("|[].*+?{^$").find(token) != std::string_view::npos) {
    folded_.clear();
    return {};
  }
  return literal(first_code_point(token), token, at, in_class);
}

Status CaseCheck::escape(std::string_view token, size_t at, bool in_class) {
  const bool is_property = token[1] == 'p' || token[1] == 'P';
  if (is_property && in_class && ignores_case())
    return differs(token, at, "(?i: gives a property in a class other letter cases in one dialect");
  if (!is_property && std::string_view("sSdDrntf").find(token[1]) == std::string_view::npos)
    return literal(first_code_point(token.substr(1)), token, at, in_class);
  folded_.clear();
  last_.reset();
  return {};
}

Status CaseCheck::literal(char32_t c, std::string_view token, size_t at, bool in_class) {
  if (!ignores_case()) {
    folded_.clear();
    return {};
  }
  if (!in_class) return sequence(c, at);
  if (token == "-" && last_ && !range_from_) {
    range_from_ = last_;
    return {};
  }
  const char32_t first = range_from_.value_or(c);
  last_ = range_from_ ? std::nullopt : std::optional(c);
  range_from_.reset();
  return class_range(first, c, token, at);
}

Status CaseCheck::class_range(char32_t first, char32_t last, std::string_view token, size_t at) const {
  for (char32_t c = std::max(first, char32_t{0x80}); c <= last && c < kBehindFolds; ++c)
    if (fold(c).size() > 1)
      return first == last ? many_characters(token, at)
                           : differs(fmt::format("range to {}", token), at,
                                     fmt::format("it holds {}, which (?i: lets match several characters "
                                                 "in one dialect only",
                                                 utf8({&c, 1})));
  return {};
}

Status CaseCheck::sequence(char32_t c, size_t at) {
  const std::u32string folded = fold(c);
  if (folded.size() > 1) return many_characters(utf8({&c, 1}), at);
  folded_ += folded;
  for (const std::u32string& many : folds_)
    if (folded_.ends_with(many)) return many_characters(utf8(many), at);
  return {};
}

}  // namespace mkrt
