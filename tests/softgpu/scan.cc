#include "tests/softgpu/scan.h"

#include <algorithm>
#include <cctype>

namespace softgpu {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Returns whether `s` begins with a directive that no semicolon ends.
bool ends_with_line(std::string_view s) {
  for (const char* d :
       {".version", ".target", ".address_size", ".maxntid", ".minnctapersm", ".reqntid", ".maxnreg"})
    if (s.starts_with(d)) return true;
  return false;
}

}  // namespace

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> split_list(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '{' || s[i] == '[')) ++depth;
    if (i < s.size() && (s[i] == '}' || s[i] == ']')) --depth;
    if (i < s.size() && (s[i] != ',' || depth != 0)) continue;
    if (const std::string_view part = trim(s.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

Scanner::Scanner(std::string_view text) : text_(text) {
  for (size_t i = 0; i + 1 < text_.size(); ++i) {
    if (text_[i] != '/') continue;
    if (text_[i + 1] == '/') {
      while (i < text_.size() && text_[i] != '\n') text_[i++] = ' ';
    } else if (text_[i + 1] == '*') {
      for (; i < text_.size() && text_.compare(i, 2, "*/") != 0; ++i)
        if (text_[i] != '\n') text_[i] = ' ';
      if (i + 1 < text_.size()) text_[i] = text_[i + 1] = ' ';
    }
  }
}

void Scanner::skip_space() {
  for (; at_ < text_.size() && is_space(text_[at_]); ++at_) line_ += text_[at_] == '\n';
}

Statement Scanner::next() {
  skip_space();
  const std::string_view all = text_;
  Statement s{Statement::Kind::kEnd, {}, line_};
  if (at_ == all.size()) return s;
  if (all[at_] == '{' || all[at_] == '}') {
    s.kind = all[at_] == '{' ? Statement::Kind::kOpen : Statement::Kind::kClose;
    ++at_;
    return s;
  }
  const size_t begin = at_;
  size_t end = begin;
  while (end < all.size() && in_name(all[end])) ++end;
  if (end > begin && end < all.size() && all[end] == ':' && all.substr(end, 2) != "::") {
    at_ = end + 1;
    return {Statement::Kind::kLabel, all.substr(begin, end - begin), line_};
  }
  s.kind = Statement::Kind::kText;
  const bool line = ends_with_line(all.substr(begin));
  const bool entry =
      all.substr(begin, std::min<size_t>(40, all.find(';', begin) - begin)).find(".entry") != all.npos;
  end = all.find_first_of(line ? "\n" : entry ? ")" : ";", begin);
  if (end == all.npos) end = all.size();
  s.text = trim(all.substr(begin, end - begin));
  for (const char c : all.substr(begin, end - begin)) line_ += c == '\n';
  at_ = line || end == all.size() ? end : end + 1;
  return s;
}

}  // namespace softgpu
