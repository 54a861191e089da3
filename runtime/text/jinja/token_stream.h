// A token stream has the tokens of a template, with the next one in view.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "runtime/text/jinja/lexer.h"

namespace mkrt::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  uint32_t line() const { return current().line; }
  bool at(Token::Kind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const { return current().is_name(name); }
  bool at_name(std::initializer_list<std::string_view> names) const;
  bool at_operator(std::string_view sign) const { return current().is_operator(sign); }

  // Returns the current token and moves on. The last token stays current.
  const Token& take();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view sign);

  // The three functions move past a token and fault for another one.
  void expect(Token::Kind kind);
  void expect_operator(std::string_view sign);
  const Token& expect_name();

 private:
  [[noreturn]] void fail_expected(std::string_view what) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace mkrt::jinja
