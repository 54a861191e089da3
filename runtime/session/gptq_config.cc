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
  // transformers 5.23 writes and reads both keys. The older one goes first.
  for (const char* key : {"/quantization_config/checkpoint_format", "/quantization_config/format"}) {
    const nlohmann::json format = config.value().value(nlohmann::json::json_pointer(key), nlohmann::json());
    if (!format.is_null()) return format == "gptq_v2" ? 0u : 1u;
  }
  return 1u;
}

}  // namespace mkrt
