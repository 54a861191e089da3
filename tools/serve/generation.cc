#include "tools/serve/generation.h"

#include <algorithm>

namespace mkc {
namespace {

// A stream's chunks wait as tokens, not as text, while the client has so many bytes to take.
constexpr size_t kMaxQueuedBytes = 64 << 10;

}  // namespace

Generation::Generation(ExchangePtr exchange, std::shared_ptr<const ServedModel> model,
                       PreparedRequest prepared, AnswerHead head)
    : exchange_(std::move(exchange)),
      model_(std::move(model)),
      prepared_(std::move(prepared)),
      head_(std::move(head)) {
  const size_t choices = prepared_.prompt_tokens.size() * prepared_.api.n;
  for (size_t i = 0; i < choices; ++i) {
    const PromptText& prompt = prepared_.texts[i / prepared_.api.n];
    choices_.push_back({.text = ChoiceText(prompt.after, prepared_.api),
                        .counted = prepared_.api.echo
                                       ? TokenText(model_->tokenizer, prepared_.api.skip_special_tokens)
                                       : prompt.after,
                        .held = prompt.echo,
                        .samples = {}});
  }
}

void Generation::begin(Cancel cancel) {
  cancel_ = std::move(cancel);
  exchange_->on_drained = [self = weak_from_this()] {
    if (const auto generation = self.lock()) generation->advance();
  };
  exchange_->on_closed = [self = weak_from_this()] {
    const auto generation = self.lock();
    if (!generation) return;
    generation->status_ = 499;
    generation->detach();
    generation->cancel_all();
  };
}

void Generation::take(size_t index, TokenEvent event) {
  Choice& choice = choices_[index];
  if (event.finish) ++ended_choices_;
  // A choice that a stop string has ended takes nothing more from the engine, errors included.
  if (over() || has_whole(index)) return;
  add_tokens(choice, event);
  const bool matched = choice.text.matched() != nullptr;
  if (!matched && event.finish == mkrt::FinishReason::kError)
    return fail({.status = 500, .message = event.error, .type = "device_error"});
  if (matched || event.finish) end_choice(choice, event);
  if (matched && !event.finish && !std::exchange(choice.cancelled, true)) cancel_(index);
  const bool shown = !choice.held.empty() || !choice.samples.empty() || has_whole(index);
  if (shown && std::find(pending_.begin(), pending_.end(), index) == pending_.end())
    pending_.push_back(index);
  advance();
}

void Generation::add_tokens(Choice& choice, TokenEvent& event) {
  if (!event.prompt_samples.empty()) choice.prompt_samples = std::move(event.prompt_samples);
  if (prepared_.api.max_tokens == 0u) return;
  const size_t before = choice.text.taken();
  const bool stopped = event.finish == mkrt::FinishReason::kStop && !event.ids.empty();
  const bool hide_last = stopped && !prepared_.api.include_stop_str_in_output;
  std::span<const int32_t> shown = event.ids;
  if (hide_last) shown = shown.first(shown.size() - 1);
  choice.held += choice.text.push(shown);
  if (hide_last) choice.text.push_silent();
  event.samples.resize(std::min(event.samples.size(), choice.text.taken() - before));
  std::move(event.samples.begin(), event.samples.end(), std::back_inserter(choice.samples));
}

void Generation::end_choice(Choice& choice, const TokenEvent& event) {
  choice.held += choice.text.finish();
  choice.cached_tokens = event.cached_tokens;
  if (const std::string* stop = choice.text.matched()) {
    choice.finish_reason = "stop";
    choice.stop_reason = *stop;
  } else if (event.finish == mkrt::FinishReason::kStop && prepared_.api.max_tokens != 0u) {
    choice.finish_reason = "stop";
    const std::vector<int32_t>& ids = prepared_.api.stop_token_ids;
    if (!event.ids.empty() && std::find(ids.begin(), ids.end(), event.ids.back()) != ids.end())
      choice.stop_reason = event.ids.back();
  } else {
    choice.finish_reason = event.finish == mkrt::FinishReason::kCancelled ? "abort" : "length";
  }
}

// Takes what a choice has and the answer has not.
ChoicePart Generation::take_part(size_t index) {
  Choice& choice = choices_[index];
  ChoicePart part{.index = static_cast<uint32_t>(index), .text = std::exchange(choice.held, {})};
  const std::vector<mkrt::Sampled> samples = std::exchange(choice.samples, {});
  if (prepared_.api.logprobs)
    part.logprobs = head_.chat ? chat_logprobs(model_->tokenizer, samples) : legacy_logprobs(index, samples);
  part.finish_reason = choice.finish_reason;
  part.stop_reason = choice.stop_reason;
  part.first = !std::exchange(choice.begun, true);
  return part;
}

// Returns the log-probabilities of a part of a choice. The first part has those of an echoed prompt, too.
Json Generation::legacy_logprobs(size_t index, std::span<const mkrt::Sampled> samples) {
  Choice& choice = choices_[index];
  CompletionLogprobs list(model_->tokenizer, choice.counted, choice.offset);
  if (prepared_.api.echo && !choice.begun) {
    list.add_first(prepared_.texts[index / prepared_.api.n].first_id);
    for (const mkrt::Sampled& sampled : std::exchange(choice.prompt_samples, {})) list.add(sampled);
  }
  for (const mkrt::Sampled& sampled : samples) list.add(sampled);
  choice.offset = list.offset();
  return list.take();
}

void Generation::advance() {
  if (over()) return;
  if (prepared_.api.stream) return write_chunks();
  const bool complete = std::all_of(choices_.begin(), choices_.end(),
                                    [](const Choice& c) { return !c.finish_reason.is_null(); });
  if (complete) answer();
}

void Generation::write_chunks() {
  if (!streaming_ && !pending_.empty()) {
    streaming_ = true;
    exchange_->begin_stream("text/event-stream; charset=utf-8");
  }
  while (!pending_.empty() && exchange_->queued_bytes() < kMaxQueuedBytes) {
    const size_t index = pending_.front();
    pending_.pop_front();
    exchange_->write(sse_event(json_text(chunk_json(head_, take_part(index), prepared_.api.include_usage))));
  }
  const bool complete =
      pending_.empty() && std::all_of(choices_.begin(), choices_.end(),
                                      [](const Choice& c) { return !c.finish_reason.is_null(); });
  if (!complete) return;
  if (prepared_.api.include_usage) exchange_->write(sse_event(json_text(usage_chunk_json(head_, usage()))));
  exchange_->write(sse_event("[DONE]"));
  const ExchangePtr exchange = exchange_;
  detach();
  exchange->end();
}

void Generation::answer() {
  std::vector<ChoicePart> parts;
  for (size_t i = 0; i < choices_.size(); ++i) parts.push_back(take_part(i));
  const ExchangePtr exchange = exchange_;
  detach();
  exchange->reply({.status = 200, .body = json_text(answer_json(head_, parts, usage()))});
}

void Generation::fail(const ApiError& error) {
  if (over()) return;
  status_ = error.status;
  const ExchangePtr exchange = exchange_;
  detach();
  if (streaming_) {
    exchange->write(sse_event(error_json(error)));
    exchange->write(sse_event("[DONE]"));
    exchange->end();
  } else {
    exchange->reply({.status = error.status, .body = error_json(error)});
  }
  cancel_all();
}

void Generation::cancel_all() {
  for (size_t i = 0; i < choices_.size(); ++i)
    if (choices_[i].finish_reason.is_null() && !std::exchange(choices_[i].cancelled, true)) cancel_(i);
}

void Generation::detach() {
  exchange_ = nullptr;
  pending_.clear();
}

Usage Generation::usage() const {
  Usage usage;
  for (const uint32_t tokens : prepared_.prompt_tokens) usage.prompt_tokens += tokens;
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].text.taken();
    if (i % prepared_.api.n == 0) usage.cached_tokens += choices_[i].cached_tokens;
  }
  return usage;
}

std::string Generation::reason_of(size_t choice) const {
  const Json& reason = choices_[choice].finish_reason;
  return reason.is_null() ? "abort" : reason.get<std::string>();
}

}  // namespace mkc
