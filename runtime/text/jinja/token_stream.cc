#include "runtime/text/jinja/token_stream.h"

#include <algorithm>
#include <string>

#include "runtime/text/jinja/fault.h"

namespace mkrt::jinja {

bool TokenStream::at_name(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return at_name(name); });
}

const Token& TokenStream::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool found = at_name(name);
  if (found) take();
  return found;
}

bool TokenStream::skip_operator(std::string_view sign) {
  const bool found = at_operator(sign);
  if (found) take();
  return found;
}

void TokenStream::fail_expected(std::string_view what) const {
  fail_at(line(), "found {}, expected {}", current().describe(), what);
}

void TokenStream::expect(Token::Kind kind) {
  if (!at(kind)) fail_expected(Token{kind, 0, ""}.describe());
  take();
}

void TokenStream::expect_operator(std::string_view sign) {
  if (!at_operator(sign)) fail_expected("\"" + std::string(sign) + "\"");
  take();
}

const Token& TokenStream::expect_name() {
  if (!at(Token::Kind::kName)) fail_expected("a name");
  return take();
}

}  // namespace mkrt::jinja
