#include "tools/serve/api_error.h"

#include <nlohmann/json.hpp>

namespace mkc {

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json object{{"error",
                                       {{"message", error.message},
                                        {"type", error.type},
                                        {"param", or_null(error.param)},
                                        {"code", or_null(error.code)}}}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ApiError body_error(const mkrt::Error& error, const std::string& param) {
  const std::string prefix = kBody + ": error: ";
  const bool has_prefix = error.message.starts_with(prefix);
  return {.message = has_prefix ? error.message.substr(prefix.size()) : error.message, .param = param};
}

}  // namespace mkc
