#include "tools/token_text.h"

#include <fmt/format.h>

namespace mkc {

std::string TokenText::add(int32_t id) {
  const mkrt::Result<std::string> text = decoder_.push(id);
  return text.ok() ? text.value() : fmt::format("<{}>", id);
}

std::string text_of(const mkrt::Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special) {
  TokenText text(tokenizer, skip_special);
  std::string all;
  for (const int32_t id : ids) all += text.add(id);
  return all + text.finish();
}

}  // namespace mkc
