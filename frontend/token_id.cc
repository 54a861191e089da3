#include "frontend/token_id.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "frontend/node.h"

namespace mkc {
namespace {

using Json = nlohmann::json;

// TokenFinder follows tokenizer.json until it has seen `token` among the added ones.
class TokenFinder : public nlohmann::json_sax<Json> {
 public:
  explicit TokenFinder(const std::string& token) : token_(token) {}
  std::optional<int32_t> id() const { return added_ ? added_ : in_vocabulary_; }

  bool key(std::string& key) override { return keys_.back() = key, true; }
  bool start_object(size_t) override {
    keys_.emplace_back();
    if (in_added()) content_.clear(), number_.reset();
    return keys_.size() <= kMaxDepth;
  }
  bool end_object() override {
    const bool found = in_added() && content_ == token_ && number_;
    if (found) added_ = number_;
    keys_.pop_back();
    return !found;
  }
  bool start_array(size_t) override { return keys_.emplace_back(), keys_.size() <= kMaxDepth; }
  bool end_array() override { return keys_.pop_back(), true; }
  bool string(std::string& text) override {
    if (in_added() && keys_.back() == "content") content_ = text;
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    if (number > INT32_MAX) return true;
    const auto id = static_cast<int32_t>(number);
    if (in_added() && keys_.back() == "id") number_ = id;
    if (keys_.size() == 3 && keys_[0] == "model" && keys_[1] == "vocab" && keys_[2] == token_)
      in_vocabulary_ = id;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return false; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  // Tells whether the innermost object is one of the added tokens.
  bool in_added() const { return keys_.size() == 3 && keys_[0] == "added_tokens"; }

  const std::string& token_;
  std::vector<std::string> keys_;  // of each object and array around; "" for an array
  std::string content_;            // of the added token that is being read
  std::optional<int32_t> number_;  // its id
  std::optional<int32_t> added_, in_vocabulary_;
};

}  // namespace

std::optional<int32_t> token_id(const std::string& tokenizer_file, const std::string& token) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(tokenizer_file, failed)) return {};
  std::ifstream text(tokenizer_file, std::ios::binary);
  TokenFinder finder(token);
  Json::sax_parse(text, &finder);
  return finder.id();
}

}  // namespace mkc
