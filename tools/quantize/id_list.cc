#include "tools/quantize/id_list.h"

#include <fmt/format.h>

#include "runtime/base/json_visitor.h"
#include "tools/output.h"

namespace mkc::quantize {
namespace {

// Returns a scalar of JSON, cut to some characters.
std::string cut(const std::string& scalar) {
  constexpr size_t kShown = 40;
  const auto begins = [&](size_t i) { return (static_cast<unsigned char>(scalar[i]) & 0xC0) != 0x80; };
  size_t characters = 0;
  for (size_t i = 0; i < scalar.size(); ++i)
    if (begins(i) && ++characters > kShown) return scalar.substr(0, i) + "…";
  return scalar;
}

// IdList keeps the ids of a list and its first element that is none. Nested values are not kept, so no text
// is too deep.
class IdList final : public mkrt::JsonVisitor {
 public:
  std::vector<int32_t> ids;
  std::string wrong;  // an element that is no id; empty: all are

  explicit IdList(uint64_t vocab) : vocab_(vocab) {}

  bool null() override { return refuse("null"); }
  bool boolean(bool value) override { return refuse(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return refuse(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override {
    if (depth_ != 1 || value >= vocab_) return refuse(std::to_string(value));
    ids.push_back(static_cast<int32_t>(value));
    return true;
  }
  bool number_float(double, const std::string& digits) override { return refuse(digits); }
  bool string(std::string& value) override {
    return refuse(wrong.empty() ? json_text(nlohmann::json(value)) : "");
  }
  bool start_object(size_t) override { return open("an object"); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open("an array"); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string& token, const nlohmann::json::exception& error) override {
    constexpr int kOverflow = 406;
    if (error.id == kOverflow) refuse(token);
    is_too_large_ = error.id == kOverflow;
    return false;
  }
  bool is_too_large() const { return is_too_large_; }  // the parser met a number that it cannot hold

 private:
  // Notes the element, and lets the parser go on: it decides whether the line is JSON.
  bool refuse(const std::string& element) {
    if (wrong.empty()) wrong = cut(element);
    return true;
  }
  bool open(const char* kind) {
    if (depth_ > 0) refuse(kind);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  uint64_t vocab_;
  size_t depth_ = 0;
  bool is_too_large_ = false;
};

}  // namespace

Result<std::optional<std::vector<int32_t>>> read_id_list(const std::string& line, uint64_t vocab,
                                                         const Loc& at) {
  if (!line.starts_with('[')) return std::optional<std::vector<int32_t>>();
  IdList list(vocab);
  const bool is_json = nlohmann::json::sax_parse(line, &list);
  if (!is_json && !list.is_too_large()) return std::optional<std::vector<int32_t>>();
  if (!list.wrong.empty())
    return error_at(at, fmt::format("found {}, expected ids from 0 to {}", list.wrong, vocab - 1));
  return std::optional(std::move(list.ids));
}

}  // namespace mkc::quantize
