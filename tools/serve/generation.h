// A generating request over HTTP has choices, which grow by events of the engine and become an answer or a
// stream.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "tools/serve/answer_json.h"
#include "tools/serve/choice_text.h"
#include "tools/serve/engine_loop.h"
#include "tools/serve/http_server.h"
#include "tools/serve/prepare.h"

namespace mkc {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  using Cancel = std::function<void(size_t choice)>;

  Generation(ExchangePtr exchange, std::shared_ptr<const ServedModel> model, PreparedRequest prepared,
             AnswerHead head);

  // Sets what ends a choice's request in the engine, and watches the client. A client that is gone ends all
  // choices.
  void begin(Cancel cancel);

  // Takes what a step gave a choice. Nothing more is written once the answer is over. A stop string ends a
  // choice at once, and cancels its request.
  void take(size_t choice, TokenEvent event);

  // Ends the answer with an error, and cancels all choices.
  void fail(const ApiError& error);

  // Tells whether the answer has all of a choice. The engine may still run its request.
  bool has_whole(size_t choice) const { return !choices_[choice].finish_reason.is_null(); }

  // Tells whether the answer is queued as a whole, or has no reader any more. A generation must live until
  // then.
  bool over() const { return exchange_ == nullptr; }
  // Tells whether the engine has ended all choices.
  bool ended() const { return ended_choices_ == choices_.size(); }

  Usage usage() const;
  // Returns the status of the answer so far, 499 for a client that left.
  unsigned status() const { return status_; }
  // Returns why a choice ended: stop, length, or abort for one without an answer.
  std::string reason_of(size_t choice) const;

 private:
  struct Choice {
    ChoiceText text;
    TokenText counted;                               // the text up to `offset`
    std::string held;                                // text that is not in the answer yet
    std::vector<mkrt::Sampled> samples;              // that are not in the answer yet
    std::vector<mkrt::Sampled> prompt_samples = {};  // alike, of an echoed prompt
    size_t offset = 0;                               // of the next token, for log-probabilities
    bool begun = false;                              // the stream has a chunk of it
    bool cancelled = false;
    uint32_t cached_tokens = 0;
    Json finish_reason = {}, stop_reason = {};  // null: the choice goes on
  };
  void add_tokens(Choice& choice, TokenEvent& event);
  void end_choice(Choice& choice, const TokenEvent& event);
  ChoicePart take_part(size_t choice);
  Json legacy_logprobs(size_t choice, std::span<const mkrt::Sampled> samples);
  void advance();
  void write_chunks();
  void answer();
  void cancel_all();
  void detach();

  ExchangePtr exchange_;  // null: the answer is over
  std::shared_ptr<const ServedModel> model_;
  PreparedRequest prepared_;
  AnswerHead head_;
  Cancel cancel_;
  std::vector<Choice> choices_;
  std::deque<size_t> pending_;  // choices with something to write, in order
  bool streaming_ = false;      // the stream has begun
  size_t ended_choices_ = 0;
  unsigned status_ = 200;
};

}  // namespace mkc
