// nlohmann-json with its classes declared as instantiated elsewhere (json_instances.cc). Precompiled sets
// hold this header, so that no source compiles the same parser again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

// MKC_JSON_PARSE(Json, Text) is the function that parses a text of this type.
#define MKC_JSON_PARSE(Json, Text) Json Json::parse(Text, Json::parser_callback_t, bool, bool)
#define MKC_JSON_EACH_PARSE(M, Json)               \
  M MKC_JSON_PARSE(Json, std::string_view&);       \
  M MKC_JSON_PARSE(Json, const std::string_view&); \
  M MKC_JSON_PARSE(Json, std::string&);            \
  M MKC_JSON_PARSE(Json, const std::string&);

// Large functions are not inlined. Clang would optimise their code in each source, and then leave it out.
#define MKC_JSON_DECLARED extern template __attribute__((noinline))
#define MKC_JSON_LARGE(Json)                                                              \
  MKC_JSON_EACH_PARSE(MKC_JSON_DECLARED, Json)                                            \
  MKC_JSON_DECLARED std::string Json::dump(int, char, bool, Json::error_handler_t) const; \
  MKC_JSON_DECLARED Json::basic_json(const Json&);                                        \
  MKC_JSON_DECLARED Json::basic_json(Json::initializer_list_t, bool, Json::value_t);      \
  MKC_JSON_DECLARED void Json::json_value::destroy(Json::value_t);
MKC_JSON_LARGE(nlohmann::basic_json<>)
MKC_JSON_LARGE(nlohmann::basic_json<nlohmann::ordered_map>)
#undef MKC_JSON_LARGE
#undef MKC_JSON_DECLARED

namespace mkc::precompiled {

// A precompiled set has the templates that this function uses, so that sources need not instantiate them.
template <class Json>
void use(Json& j, std::string& text, std::string_view view) {
  j = Json::parse(text);
  j = Json::parse(view, nullptr, false);
  j = Json::parse(std::as_const(text));
  j["key"].push_back(Json{{"key", text}, {"number", 1}, {"list", {1, 2}}, {"flag", true}});
  text += j.dump() + j.at("key").template get<std::string>() + j.value("key", "");
  for (const auto& [key, value] : j.items()) text += key;
  for (Json& value : j) j.contains(text) ? void(value = Json::array()) : void(value = Json::object());
  if (j == "key" || j == 1 || j < 1) j[text] = j.template get<int64_t>() + j.template get<double>();
}
inline void use_both(nlohmann::json& j, nlohmann::ordered_json& ordered, std::string& text) {
  use(j, text, text);
  use(ordered, text, text);
}

}  // namespace mkc::precompiled
