#include "runtime/text/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <string>

#include "runtime/text/regex_dialect.h"
#include "runtime/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace mkrt {
namespace {

// A limit of PCRE2 holds for each place where a match may begin, so that a text may take as many times more.
constexpr uint32_t kMaxMatchSteps = 10'000'000;  // of one place
constexpr uint32_t kFirstMatchSteps = 1000;      // of a place that counts nothing
constexpr uint64_t kMaxTextSteps = 100'000'000;  // of the places that take more, and more for each byte
constexpr uint64_t kStepsOfByte = 1000;
constexpr int kNoSteps = INT_MIN;  // the places of a text took all their steps
constexpr size_t kFirstJitStackBytes = size_t{32} << 10;
constexpr size_t kMaxJitStackBytes = size_t{8} << 20;

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto free_function>
struct FreeWith {
  void operator()(auto* pointer) const { free_function(pointer); }
};

using CompileContext = std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, FreeWith<pcre2_jit_stack_free>>;

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  const Result<std::string> translated = to_pcre2(pattern);
  if (!translated.ok()) return translated.error();
  const std::string& text = translated.value();

  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(units(text), text.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT, &error,
                                   &offset, context.get());
  if (code == nullptr)
    return Error{fmt::format("bad pattern {}: {} at byte {}", text, error_text(error), offset)};
  // Without a JIT compiler the interpreter finds equal matches, but more slowly.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(code, std::string(pattern));
}

struct RegexMatcher::State {
  const pcre2_code* code;
  const std::string& pattern;
  MatchContext context;
  MatchData data;
  JitStack stack;
  uint64_t steps_left;

  // Returns PCRE2's result for the first match from a byte on that begins at most at `last`.
  int match(std::string_view text, size_t from, size_t last, uint32_t limit) {
    pcre2_set_match_limit(context.get(), limit);
    pcre2_set_offset_limit(context.get(), last);
    // The text is known to be valid. A check for every match would take quadratic time.
    return pcre2_match(code, units(text), text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), context.get());
  }

  // Returns the result for a match at one byte that takes many steps. The limits that are tried are taken off
  // the steps of the text.
  int match_at(std::string_view text, size_t at) {
    for (uint32_t limit = kFirstMatchSteps; limit < kMaxMatchSteps;) {
      limit = std::min(limit * 16, kMaxMatchSteps);
      if (steps_left < limit) return kNoSteps;
      steps_left -= limit;
      const int found = match(text, at, at, limit);
      if (found != PCRE2_ERROR_MATCHLIMIT) return found;
    }
    return PCRE2_ERROR_MATCHLIMIT;
  }

  // Returns the result for the first match from a byte on. A fault moves `from` to the place where it is.
  int find(std::string_view text, size_t& from) {
    int found = match(text, from, PCRE2_UNSET, kFirstMatchSteps);
    if (found != PCRE2_ERROR_MATCHLIMIT) return found;
    // The place that takes more steps is somewhere behind `from`.
    for (; from <= text.size(); from += from < text.size() ? scan_utf8(text.substr(from)).size : 1) {
      found = match(text, from, from, kFirstMatchSteps);
      if (found == PCRE2_ERROR_MATCHLIMIT) found = match_at(text, from);
      if (found != PCRE2_ERROR_NOMATCH) return found;
    }
    return PCRE2_ERROR_NOMATCH;
  }
};

RegexMatcher::RegexMatcher(const Regex& regex)
    : state_(new State{regex.code_.get(), regex.pattern_, MatchContext(pcre2_match_context_create(nullptr)),
                       MatchData(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)),
                       JitStack(pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr)),
                       kMaxTextSteps}) {
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

RegexMatcher::~RegexMatcher() = default;

Status RegexMatcher::find_all(std::string_view text, std::vector<Span>& spans) {
  spans.clear();
  state_->steps_left += kStepsOfByte * text.size();
  size_t from = 0;
  while (from <= text.size()) {
    const int found = state_->find(text, from);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found == kNoSteps)
      return Error{fmt::format("the pattern {} takes too many steps in this text, at byte {} of {}",
                               state_->pattern, from, text.size())};
    if (found < 0)
      return Error{fmt::format("no match within the limits from byte {} of a text of {}: {}", from,
                               text.size(), error_text(found))};
    const size_t* bounds = pcre2_get_ovector_pointer(state_->data.get());
    const Span span{bounds[0], bounds[1]};
    const bool is_empty = span.begin == span.end;
    if (is_empty && !spans.empty() && spans.back().end == span.end) {
      if (from == text.size()) return {};
      from += scan_utf8(text.substr(from)).size;
      continue;
    }
    spans.push_back(span);
    from = span.end;
  }
  return {};
}

}  // namespace mkrt
