#include "tools/serve/model_object.h"

#include <charconv>

namespace mkc {

Json model_object(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "mkc"},
          {"max_model_len", model.positions()}};
}

Json models_json(const ServedModel& model) {
  return {{"object", "list"}, {"data", Json::array({model_object(model)})}};
}

std::string model_id_of(std::string_view path) {
  std::string id;
  for (std::string_view rest = path.substr(kModelPath.size()); !rest.empty();) {
    constexpr size_t kEscape = 3;
    uint8_t byte = 0;
    const char* digits_end = rest.data() + kEscape;
    const bool escaped = rest.size() >= kEscape && rest[0] == '%' &&
                         std::from_chars(rest.data() + 1, digits_end, byte, 16).ptr == digits_end;
    id += escaped ? static_cast<char>(byte) : rest[0];
    rest.remove_prefix(escaped ? kEscape : 1);
  }
  return id;
}

}  // namespace mkc
