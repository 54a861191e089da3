#include "runtime/session/gptq_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"

namespace mkrt {

Result<uint32_t> gptq_zero_offset(const Checkpoint& checkpoint) {
  const MappedFile& file = checkpoint.config;
  if (file.path.empty())
    return Error{fmt::format("{}: error: config.json is missing, which says how zero points are stored",
                             checkpoint.directory)};
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  const Result<nlohmann::json> config = parse_json_text(text, file.path);
  if (!config.ok()) return config.error();
  static const nlohmann::json::json_pointer kFormat("/quantization_config/checkpoint_format");
  return config.value().value(kFormat, nlohmann::json()) == "gptq_v2" ? 0u : 1u;
}

}  // namespace mkrt
