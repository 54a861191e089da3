#include "tools/answer_end.h"

namespace mkc {

const char* answer_end_name(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kEndToken:
      return "an end token";
    case AnswerEnd::kLength:
      return "--max-new-tokens";
    case AnswerEnd::kContextFull:
      return "the end of the context";
    case AnswerEnd::kInterrupted:
      return "Ctrl-C";
  }
  return "";
}

NewTokenLimit limit_new_tokens(uint32_t wanted, uint64_t prompt, uint64_t positions) {
  const uint64_t left = positions - prompt + 1;  // the last new token is never fed
  if (wanted <= left) return {wanted, AnswerEnd::kLength};
  return {static_cast<uint32_t>(left), AnswerEnd::kContextFull};
}

}  // namespace mkc
