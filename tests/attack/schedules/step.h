// A step has the values of all symbols, and evaluates expressions at these values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/values.h"
#include "tests/attack/schedules/rng.h"

namespace mkc::attack {

// A hint is a value at which a mutant differs from its original: of T, B, R, or of an element of q_len or
// kv_len.
struct Hint {
  std::string symbol;
  int64_t value = 0;
};

struct Step {
  std::vector<StepRequest> requests;
  std::vector<int64_t> active_expert_rows;  // rows by active expert, where experts are routed
  bool all_rows = false;                    // logits of all rows are wanted
  std::vector<int64_t> values;              // values by SymbolId, then the elements of the lists
  std::vector<int64_t> length;              // length by SymbolId; -1: no list

  // Throws a Finding where a list ends before its index, a divisor is not positive or a number leaves 2^60.
  int64_t at(const Expr& e, std::span<const int64_t> coords = {}) const;
  // Returns element `i` of the list of that name.
  int64_t element(const Symbols& symbols, const char* list, int64_t i) const;
};

// Samples steps within the bounds of what a host says of a batch: T, B, R, q_len and kv_len.
class Steps {
 public:
  // `max_tokens` limits steps that are not of the hints; 0: as many as there may be.
  Steps(const TaskProgram& program, std::vector<Hint> hints, int64_t max_tokens);

  // Draws step `number`: first those of the hints, then the ends of the bounds, then random ones. Returns
  // nothing where what came out is no step. Throws a Finding where a value that follows from the requests
  // leaves the bounds of its symbol.
  std::optional<Step> draw(uint32_t number, Rng& rng) const;

 private:
  int64_t bound(const char* symbol, bool upper, int64_t fallback) const;
  std::vector<StepRequest> requests(int64_t count, int64_t tokens, Rng& rng) const;
  std::vector<StepRequest> hinted(const Hint& hint, Rng& rng) const;
  int64_t context(int64_t rows, Rng& rng) const;
  std::vector<int64_t> route(int64_t tokens, Rng& rng) const;
  void set_rows_wanted(Step& step) const;
  bool is_step(const Step& step) const;

  const TaskProgram& program_;
  std::vector<Hint> hints_;
  int64_t tokens_, requests_, rows_, positions_, min_tokens_;
  int64_t drawn_tokens_, drawn_positions_;  // limits of most steps without a hint
  int64_t experts_ = 0, choices_ = 0;
};

std::string to_text(const Step& step);

}  // namespace mkc::attack
