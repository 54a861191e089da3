#include "tools/serve/choice_text.h"

namespace mkc {

std::string ChoiceText::push(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (matched()) break;
    ++taken_;
    text += stop_.push(tokens_.add(id));
  }
  return text;
}

std::string ChoiceText::finish() {
  std::string text = stop_.push(tokens_.finish());
  return text + stop_.finish();
}

}  // namespace mkc
