// The requests that have arrived and are not finished.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/engine/sampler.h"

namespace mkrt {

// Order says which of two requests goes first: the one of the smaller priority number, then the one that
// arrived first.
struct Order {
  int32_t priority = 0;
  uint64_t arrival = 0;  // 0, 1, … in the order of arrival

  auto operator<=>(const Order&) const = default;
};

// A Sequence is a request that has arrived and is not finished.
struct Sequence {
  uint64_t id = 0;
  Order order;
  std::vector<int32_t> tokens;    // its prompt, then the new ones
  uint32_t prompt = 0;            // tokens of the prompt
  uint32_t longest = 0;           // most positions it may need: the last new token is never fed
  uint32_t fed = 0;               // tokens in the cache
  uint32_t kept_pages = 0;        // its first pages, whose tokens the prefix cache holds
  uint32_t cached_tokens = 0;     // tokens of the prompt that were not fed, but in the cache
  bool admitted = false;          // now or before
  uint32_t losses = 0;            // times that its pages were lost by an error since its last token
  uint32_t rows = 0;              // rows of the planned step: tokens [fed, fed + rows)
  bool stream = false;            // its new tokens are handed out as they come
  std::vector<int32_t> pages;     // pages of positions [0, fed + rows), in order
  std::vector<int32_t> stop_ids;  // each ends the request
  Sampler sampler;                // for its next token
  std::vector<Sampled> samples;   // of the new tokens, if log-probabilities are wanted
  uint32_t prompt_logprobs = 0;   // as in Request
  bool prompt_only = false;       // as in Request
  std::vector<Sampled> prompt_samples =
      {};  // of the prompt's tokens from the second on, as far as they are fed

  uint32_t pending() const { return static_cast<uint32_t>(tokens.size()) - fed; }
  // Tells whether log-probabilities of its prompt are wanted that no step has computed yet.
  bool lacks_scores() const { return prompt_logprobs > 0 && prompt_samples.size() + 1 < prompt; }
  // Tells whether only its newest token is left to feed.
  bool decodes() const { return fed >= prompt && pending() == 1; }
};

// A Roster has the running requests and those that wait, each in their order. Waiting requests have no pages.
struct Roster {
  std::vector<Sequence> running;
  std::map<Order, Sequence> waiting;
};

}  // namespace mkrt
