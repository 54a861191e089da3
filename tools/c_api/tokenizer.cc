#include <algorithm>

#include "tools/c_api/guard.h"
#include "tools/c_api/mkc.h"
#include "tools/run_inputs.h"
#include "tools/token_text.h"

struct mkc_tokenizer {
  mkrt::Tokenizer tokenizer;
};

struct mkc_text {
  mkc::TokenText tokens;
  std::string last;  // the text that mkc_add_ids() returned last
};

mkc_tokenizer* mkc_open_tokenizer(const char* directory) {
  return mkc::guarded(
      [&]() -> mkc_tokenizer* {
        if (mkc::missing(directory, "directory")) return nullptr;
        auto found = mkc::find_tokenizer(directory, "text");
        if (!found.ok()) return mkc::keep_error(found.error().message);
        return new mkc_tokenizer{std::move(*found.value())};
      },
      nullptr);
}

void mkc_close_tokenizer(mkc_tokenizer* tokenizer) {
  delete tokenizer;
}

int mkc_encode(const mkc_tokenizer* tokenizer, const char* text, size_t bytes, int special, int32_t* ids,
               size_t room, size_t* count) {
  return mkc::guarded(
      [&]() -> int {
        if (mkc::missing(tokenizer, "tokenizer") || mkc::missing(text, "text") ||
            mkc::missing(count, "count") || (room > 0 && mkc::missing(ids, "ids")))
          return 1;
        const auto encoded = mkrt::encode(tokenizer->tokenizer, {text, bytes}, special != 0);
        if (!encoded.ok()) {
          mkc::last_error = encoded.error().message;
          return 1;
        }
        *count = encoded.value().size();
        std::copy_n(encoded.value().begin(), std::min(room, *count), ids);
        return 0;
      },
      1);
}

mkc_text* mkc_begin_text(const mkc_tokenizer* tokenizer, int special) {
  return mkc_begin_text_after(tokenizer, nullptr, 0, special);
}

mkc_text* mkc_begin_whole_text(const mkc_tokenizer* tokenizer, int special) {
  return mkc::guarded(
      [&]() -> mkc_text* {
        if (mkc::missing(tokenizer, "tokenizer")) return nullptr;
        return new mkc_text{mkc::TokenText(tokenizer->tokenizer, special == 0, mkrt::ByteRuns::kWhole), ""};
      },
      nullptr);
}

mkc_text* mkc_begin_text_after(const mkc_tokenizer* tokenizer, const int32_t* prompt, size_t count,
                               int special) {
  return mkc::guarded(
      [&]() -> mkc_text* {
        if (mkc::missing(tokenizer, "tokenizer") || (count > 0 && mkc::missing(prompt, "prompt")))
          return nullptr;
        return new mkc_text{mkc::text_after(tokenizer->tokenizer, {prompt, count}, special == 0), ""};
      },
      nullptr);
}

void mkc_end_text(mkc_text* text) {
  delete text;
}

const char* mkc_add_ids(mkc_text* text, const int32_t* ids, size_t count, size_t* bytes) {
  return mkc::guarded(
      [&]() -> const char* {
        if (mkc::missing(text, "text") || mkc::missing(bytes, "bytes") ||
            (count > 0 && mkc::missing(ids, "ids")))
          return nullptr;
        text->last = count == 0 ? text->tokens.finish() : "";
        for (size_t i = 0; i < count; ++i) text->last += text->tokens.add(ids[i]);
        *bytes = text->last.size();
        return text->last.c_str();
      },
      nullptr);
}
