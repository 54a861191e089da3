#include "tools/token_text.h"

#include <fmt/format.h>

namespace mkc {

std::string TokenText::add(int32_t id) {
  const mkrt::Result<std::string> text = decoder_.push(id);
  return text.ok() ? text.value() : decoder_.interrupt() + fmt::format("<{}>", id);
}

TokenText text_after(const mkrt::Tokenizer& tokenizer, std::span<const int32_t> prompt, bool skip_special) {
  TokenText text(tokenizer, skip_special);
  for (const int32_t id : prompt) (void)text.add(id);
  text.leave_out_prompt();
  return text;
}

std::string text_of(TokenText text, std::span<const int32_t> ids) {
  std::string all;
  for (const int32_t id : ids) all += text.add(id);
  return all + text.finish();
}

}  // namespace mkc
