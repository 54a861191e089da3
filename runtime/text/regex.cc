#include "runtime/text/regex.h"

#include <fmt/format.h>

#include <string>

#include "runtime/text/regex_dialect.h"
#include "runtime/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace mkrt {
namespace {

constexpr uint32_t kMaxMatchSteps = 10'000'000;  // of each place where a match may begin
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
  pcre2_code* code = pcre2_compile(units(text), text.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error,
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
};

RegexMatcher::RegexMatcher(const Regex& regex)
    : state_(new State{regex.code_.get(), regex.pattern_, MatchContext(pcre2_match_context_create(nullptr)),
                       MatchData(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)),
                       JitStack(pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr))}) {
  pcre2_set_match_limit(state_->context.get(), kMaxMatchSteps);
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

RegexMatcher::~RegexMatcher() = default;

Status RegexMatcher::find_all(std::string_view text, std::vector<Span>& spans) {
  spans.clear();
  size_t from = 0;
  while (from <= text.size()) {
    // The text is known to be valid. A check for every match would take quadratic time.
    const int found = pcre2_match(state_->code, units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                  state_->data.get(), state_->context.get());
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0)
      return Error{fmt::format("no match of {} within the limits from byte {} of a text of {}: {}",
                               state_->pattern, from, text.size(), error_text(found))};
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
