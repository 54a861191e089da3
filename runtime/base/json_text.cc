#include "runtime/base/json_text.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "runtime/base/json_visitor.h"

namespace mkrt {
namespace {

constexpr int kMaxDepth = 64;

// Check stops at the first thing that parse_json_text() refuses.
class Check final : public JsonVisitor {
 public:
  std::string why;  // what is refused; empty: nothing

  bool start_object(size_t) override {
    keys_.emplace_back();
    return open();
  }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    why = fmt::format("key \"{}\" is given twice", name);
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }

 private:
  bool open() {
    if (++depth_ <= kMaxDepth) return true;
    why = fmt::format("nested more than {} levels deep", kMaxDepth);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of each open object
  int depth_ = 0;
};

// WideIntegers stops at the first integer that the parser makes a float of.
class WideIntegers final : public JsonVisitor {
 public:
  std::string why;  // what is refused; empty: nothing

  bool number_float(double, const std::string& digits) override {
    constexpr size_t kShown = 40;
    if (digits.find_first_of(".eE") != digits.npos) return true;
    why = fmt::format("found the integer {}{}, expected at most 64 bits", digits.substr(0, kShown),
                      digits.size() > kShown ? "…" : "");
    return false;
  }
};

template <class Json>
Result<Json> parse_checked(std::string_view text, const std::string& file) {
  try {
    Check check;
    (void)nlohmann::json::sax_parse(text, &check);
    if (!check.why.empty()) return Error{fmt::format("{}: error: {}", file, check.why)};
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    const std::string_view what = e.what();
    const size_t text_at = what.find("] ");
    return Error{
        fmt::format("{}: error: not JSON: {}", file, text_at == what.npos ? what : what.substr(text_at + 2))};
  }
}

}  // namespace

std::string wide_integer_fault(std::string_view text) {
  WideIntegers integers;
  (void)nlohmann::json::sax_parse(text, &integers);
  return integers.why;
}

size_t find_key(std::string_view text, const std::string& key) {
  text = text.substr(0, text.find('\0'));  // the parser stops there
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    if (text[at] != '"') continue;
    const size_t begin = at++;
    for (; text[at] != '"'; ++at)
      if (text[at] == '\\') ++at;
    const size_t behind = text.find_first_not_of(" \t\r\n", at + 1);
    const bool is_key = depth == 1 && behind != text.npos && text[behind] == ':';
    if (is_key && nlohmann::json::parse(text.substr(begin, at + 1 - begin)) == key) return begin;
  }
  return text.npos;
}

Result<nlohmann::json> parse_json_text(std::string_view text, const std::string& file) {
  return parse_checked<nlohmann::json>(text, file);
}

Result<nlohmann::ordered_json> parse_ordered_json_text(std::string_view text, const std::string& file) {
  return parse_checked<nlohmann::ordered_json>(text, file);
}

}  // namespace mkrt
