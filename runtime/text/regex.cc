#include "runtime/text/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <string>

#include "runtime/text/regex_dialect.h"
#include "runtime/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace mkrt {
namespace {

constexpr uint32_t kMaxMatchSteps = 10'000'000;  // of each place where a match may begin
constexpr uint32_t kFirstMatchSteps = 1000;      // the limit is raised to the maximum where a place needs it
constexpr uint32_t kMoreMatchSteps = 4;          // a factor
constexpr uint32_t kStepsOfClock = 32;           // places and matches between two looks at the clock

// PCRE2 calls back where no other branch matches at a place. A callback at the begin of the pattern would end
// PCRE2's memory of the runs that failed: \s+$ on a run of spaces would take quadratic time.
constexpr std::string_view kCallBackWhereNoMatch = "|(?C1)(?!)";

std::atomic<bool> texts_end = false;

std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

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

pcre2_code* compile_pcre2(const std::string& pattern, int& error, size_t& offset) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  return pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error,
                       &offset, context.get());
}

}  // namespace

MatchTime::MatchTime(std::chrono::nanoseconds allowed) : allowed_(allowed), end_(thread_time() + allowed) {}

void MatchTime::end_all() {
  texts_end = true;
}

bool MatchTime::is_over() {
  over_ = over_ || texts_end || thread_time() >= end_;
  return over_;
}

bool MatchTime::count_step() {
  return ++steps_ % kStepsOfClock == 0 ? is_over() : over_;
}

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  const Result<std::string> translated = to_pcre2(pattern);
  if (!translated.ok()) return translated.error();
  const std::string& text = translated.value();

  int error = 0;
  size_t offset = 0;
  Code plain(compile_pcre2(text, error, offset));
  if (plain == nullptr)
    return Error{fmt::format("bad pattern {}: {} at byte {}", text, error_text(error), offset)};
  Code timed(compile_pcre2(text + std::string(kCallBackWhereNoMatch), error, offset));
  if (timed == nullptr) return Error{fmt::format("bad pattern {}: {}", text, error_text(error))};
  // Without a JIT compiler the interpreter finds equal matches, but more slowly.
  for (pcre2_code* code : {plain.get(), timed.get()}) pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(std::move(plain), std::move(timed), std::string(pattern));
}

struct RegexMatcher::State {
  const pcre2_code *plain, *timed;
  const std::string& pattern;
  MatchContext context;
  MatchData data;
  JitStack stack;

  // Returns PCRE2's result for the first match from a byte on. Limits of steps grow from call to call, so
  // that a place with many steps is left in time.
  int find(std::string_view text, size_t from, MatchTime& time);
  // Returns PCRE2's result of one call. Each place may take so many steps.
  int match(const pcre2_code* code, std::string_view text, size_t from, uint32_t max_steps);
};

namespace {

// A Search is one call of pcre2_match.
struct Search {
  MatchTime& time;
  size_t from;  // no match begins before this byte
};

int place_failed(pcre2_callout_block* block, void* search_pointer) {
  auto& search = *static_cast<Search*>(search_pointer);
  search.from = block->start_match;
  return search.time.count_step() ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

int RegexMatcher::State::match(const pcre2_code* code, std::string_view text, size_t from,
                               uint32_t max_steps) {
  pcre2_set_match_limit(context.get(), max_steps);
  // The text is known to be valid. A check for every match would take quadratic time.
  return pcre2_match(code, units(text), text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), context.get());
}

int RegexMatcher::State::find(std::string_view text, size_t from, MatchTime& time) {
  Search search{time, from};
  pcre2_set_callout(context.get(), place_failed, &search);
  for (uint32_t limit = kFirstMatchSteps;; limit = std::min(limit * kMoreMatchSteps, kMaxMatchSteps)) {
    const int found = match(timed, text, search.from, limit);
    if (found != PCRE2_ERROR_MATCHLIMIT) return found;
    if (time.is_over()) return PCRE2_ERROR_CALLOUT;
    // The pattern as it was given sees at once that a text lacks a character which each match has.
    if (limit == kMaxMatchSteps) return match(plain, text, search.from, kFirstMatchSteps);
  }
}

RegexMatcher::RegexMatcher(const Regex& regex)
    : state_(new State{regex.plain_.get(), regex.timed_.get(), regex.pattern_,
                       MatchContext(pcre2_match_context_create(nullptr)),
                       MatchData(pcre2_match_data_create_from_pattern(regex.plain_.get(), nullptr)),
                       JitStack(pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr))}) {
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

RegexMatcher::~RegexMatcher() = default;

Status RegexMatcher::find_all(std::string_view text, std::vector<Span>& spans, MatchTime& time) {
  spans.clear();
  size_t from = 0;
  while (from <= text.size()) {
    const int found = time.count_step() ? PCRE2_ERROR_CALLOUT : state_->find(text, from, time);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found == PCRE2_ERROR_CALLOUT)
      return Error{
          fmt::format("the pattern {} is too slow for this text: {:.1f} s of processor time are over "
                      "behind byte {} of {}",
                      state_->pattern, time.seconds(), from, text.size())};
    if (found < 0)
      return Error{fmt::format("no match of {} within the limits from byte {} of a text of {}: {}",
                               state_->pattern, from, text.size(), error_text(found))};
    const size_t* bounds = pcre2_get_ovector_pointer(state_->data.get());
    const Span span{bounds[0], bounds[1]};
    const bool is_empty = span.begin == span.end;
    if (!is_empty || spans.empty() || spans.back().end != span.end) spans.push_back(span);
    from = span.end;
    if (!is_empty) continue;
    // An empty match would be found here again.
    if (from == text.size()) return {};
    from += scan_utf8(text.substr(from)).size;
  }
  return {};
}

}  // namespace mkrt
