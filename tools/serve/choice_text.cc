#include "tools/serve/choice_text.h"

namespace mkc {

std::string ChoiceText::push(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (matched()) break;
    ++taken_;
    text += push_text(tokens_.add(id));
  }
  return text;
}

std::string ChoiceText::finish() {
  std::string text = push_text(tokens_.finish());
  return text + stop_.finish();
}

std::string ChoiceText::push_text(const std::string& text) {
  return taken_ > min_tokens_ ? stop_.push(text) : stop_.push_unsearched(text);
}

}  // namespace mkc
