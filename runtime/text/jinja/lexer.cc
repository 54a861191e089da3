#include "runtime/text/jinja/lexer.h"

#include <optional>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/scan.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

// Returns the source with \n for every line break, and without the last one.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    const bool pair = source[at] == '\r' && at + 1 < source.size() && source[at + 1] == '\n';
    text += source[at] == '\r' ? '\n' : source[at];
    if (pair) ++at;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void skip(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) line_ += source_[at_ + i] == '\n';
    at_ += bytes;
    line_starting_ = bytes > 0 && source_[at_ - 1] == '\n';
  }
  void skip_spaces() { skip(leading_spaces(rest())); }

  // Reads text up to the next tag, and the tag.
  void read_text() {
    size_t begin = at_;
    while (begin < source_.size() && !is_tag(begin)) ++begin;
    std::string text = source_.substr(at_, begin - at_);
    if (begin == source_.size()) {
      add(TokenKind::kText, std::move(text));
      skip(begin - at_);
      return;
    }
    const char type = source_[begin + 1];
    const std::string_view tag = std::string_view(source_).substr(begin);
    if (const std::optional<size_t> raw = type == '%' ? raw_begin(tag) : std::nullopt)
      return read_raw(text, *raw);
    const char sign = tag.size() > 2 && (tag[2] == '-' || tag[2] == '+') ? tag[2] : '\0';
    add_text(std::move(text), sign, type != '{');
    skip(begin - at_);
    const uint32_t line = line_;
    if (type != '#') add(type == '%' ? TokenKind::kBlockBegin : TokenKind::kPrintBegin, "");
    skip(sign == '\0' ? 2 : 3);
    type == '#' ? read_comment(line) : read_tag(type == '%', line);
  }

  bool is_tag(size_t at) const {
    if (source_[at] != '{' || at + 1 >= source_.size()) return false;
    return source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#';
  }

  // Adds text before a tag with the sign, without the white space that the tag takes.
  void add_text(std::string text, char sign, bool is_block) {
    if (sign == '-') {
      text.resize(text.size() - trailing_spaces(text));
    } else if (sign != '+' && is_block) {
      const size_t newline = text.rfind('\n');
      const size_t begin = newline == text.npos ? 0 : newline + 1;
      const std::string_view last = std::string_view(text).substr(begin);
      if ((begin > 0 || line_starting_) && leading_spaces(last) == last.size()) text.resize(begin);
    }
    if (!text.empty()) add(TokenKind::kText, std::move(text));
  }

  // Returns the bytes of a tag `{% raw %}`, or nothing for any other tag.
  static std::optional<size_t> raw_begin(std::string_view tag) {
    size_t at = 2;
    if (at < tag.size() && (tag[at] == '-' || tag[at] == '+')) ++at;
    at += leading_spaces(tag.substr(at));
    if (!tag.substr(at).starts_with("raw")) return std::nullopt;
    at += 3;
    at += leading_spaces(tag.substr(at));
    if (tag.substr(at).starts_with("%}")) return at + 2;
    if (!tag.substr(at).starts_with("-%}")) return std::nullopt;
    return at + 3 + leading_spaces(tag.substr(at + 3));
  }

  void read_raw(std::string& before, size_t tag_bytes) {
    const size_t size = before.size();
    const char sign = source_[at_ + size + 2];
    add_text(std::move(before), sign, true);
    skip(size);
    const uint32_t line = line_;
    skip(tag_bytes);
    const size_t begin = at_;
    for (size_t end = source_.find("{%", begin); end != source_.npos; end = source_.find("{%", end + 1)) {
      const std::optional<size_t> name_end = raw_end_name(end);
      if (!name_end) continue;
      add_text(source_.substr(begin, end - begin), source_[end + 2], true);
      skip(*name_end - at_);
      end_tag(true);
      return;
    }
    fail_at(line, "the raw block has no end: expected {{% endraw %}}");
  }

  // Returns where `%}` or its sign begins if `{% endraw` is at the offset.
  std::optional<size_t> raw_end_name(size_t at) const {
    const std::string_view source = source_;
    at += 2;
    if (at < source.size() && (source[at] == '-' || source[at] == '+')) ++at;
    at += leading_spaces(source.substr(at));
    if (!source.substr(at).starts_with("endraw")) return std::nullopt;
    at += 6;
    at += leading_spaces(source.substr(at));
    const std::string_view end = source.substr(at);
    if (end.starts_with("%}") || end.starts_with("-%}") || end.starts_with("+%}")) return at;
    return std::nullopt;
  }

  void read_comment(uint32_t line) {
    const size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail_at(line, "the comment has no end: expected #}}");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    skip(end + 2 - at_);
    if (sign == '-') skip_spaces();
    if (sign != '-' && sign != '+' && sees("\n")) skip(1);
  }

  // Skips the end of a block or of a print, at which the lexer stands, with the white space that it takes.
  void end_tag(bool is_block) {
    const bool strips = sees("-");
    const bool keeps = is_block && sees("+");
    skip(strips || keeps ? 3 : 2);
    if (strips) skip_spaces();
    if (is_block && !strips && !keeps && sees("\n")) skip(1);
  }

  bool sees_end(bool is_block) const {
    const std::string_view end = is_block ? "%}" : "}}";
    if (sees(end)) return true;
    const bool sign = sees("-") || (is_block && sees("+"));
    return sign && rest().substr(1).starts_with(end);
  }

  void read_tag(bool is_block, uint32_t line) {
    std::string open;  // brackets that wait for their ends
    while (true) {
      skip_spaces();
      if (at_ == source_.size()) fail_at(line, "the tag has no end: expected {}", is_block ? "%}" : "}}");
      if (open.empty() && sees_end(is_block)) break;
      read_token(open);
    }
    add(is_block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "");
    end_tag(is_block);
  }

  void read_token(std::string& open) {
    Token token{TokenKind::kEnd, line_, ""};
    const bool after_dot = source_[at_ - 1] == '.';
    const size_t bytes = scan_token(rest(), after_dot, token);
    if (token.kind == TokenKind::kOperator) balance(token.text, open);
    tokens_.push_back(std::move(token));
    skip(bytes);
  }

  void balance(const std::string& sign, std::string& open) const {
    if (sign == "(") open += ')';
    if (sign == "[") open += ']';
    if (sign == "{") open += '}';
    if (sign != ")" && sign != "]" && sign != "}") return;
    if (open.empty()) fail_at(line_, "found {}, which nothing opens", sign);
    if (open.back() != sign[0]) fail_at(line_, "found {}, expected {}", sign, open.back());
    open.pop_back();
  }

  std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // the last tag took a newline, or nothing was read
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::describe() const {
  switch (kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kBlockBegin:
      return "{%";
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kPrintBegin:
      return "{{";
    case TokenKind::kPrintEnd:
      return "}}";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "a number";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return "\"" + text + "\"";
  }
  return "";
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace mkrt::jinja
