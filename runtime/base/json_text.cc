#include "runtime/base/json_text.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace mkrt {
namespace {

constexpr int kMaxDepth = 64;

// Refused is thrown out of the parser's callback, because the rest of the text is not worth reading.
struct Refused {
  std::string why;
};

// Watch is called at the begin and the end of every value of a document, and for every key.
class Watch {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) throw Refused{fmt::format("nested more than {} levels deep", kMaxDepth)};
    if (event == Event::object_start) keys_->emplace_back();
    if (event == Event::object_end) keys_->pop_back();
    if (event == Event::key && !keys_->back().insert(value.get<std::string>()).second)
      throw Refused{fmt::format("key \"{}\" is given twice", value.get<std::string>())};
    return true;
  }

 private:
  // The keys of each open object are shared, because the parser copies its callback.
  std::shared_ptr<std::vector<std::set<std::string>>> keys_ =
      std::make_shared<std::vector<std::set<std::string>>>();
};

}  // namespace

Result<nlohmann::json> parse_json_text(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json::parse(text, Watch());
  } catch (const Refused& refused) {
    return Error{fmt::format("{}: error: {}", file, refused.why)};
  } catch (const nlohmann::json::exception& e) {
    const std::string_view what = e.what();
    const size_t text_at = what.find("] ");
    return Error{
        fmt::format("{}: error: not JSON: {}", file, text_at == what.npos ? what : what.substr(text_at + 2))};
  }
}

}  // namespace mkrt
