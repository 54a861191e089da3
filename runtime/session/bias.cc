#include "runtime/session/bias.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/abi/sampling.h"

namespace mkrt {
namespace {

constexpr float kMaxPenalty = 2;

template <class... Args>
Error bias_fault(const char* field, fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format("{}: error: {}", field, fmt::format(format, std::forward<Args>(args)...))};
}

bool outside(int32_t id, size_t vocab) {
  return id < 0 || static_cast<size_t>(id) >= vocab;
}

Status check_values(const BiasSettings& bias, size_t vocab) {
  for (const LogitBias& of : bias.logit_bias) {
    if (outside(of.id, vocab))
      return bias_fault("logit_bias", "found the id {}, expected 0 to {}", of.id, vocab - 1);
    if (!(std::fabs(of.value) <= kMaxBias || of.value == kForbidden))
      return bias_fault("logit_bias", "id {} has the value {}, expected -{} to {}, or -inf", of.id, of.value,
                        kMaxBias, kMaxBias);
  }
  for (const auto& [field, value] :
       {std::pair{"presence_penalty", bias.presence_penalty}, {"frequency_penalty", bias.frequency_penalty}})
    if (!(std::fabs(value) <= kMaxPenalty))
      return bias_fault(field, "is {}, expected -{} to {}", value, kMaxPenalty, kMaxPenalty);
  for (const int32_t id : bias.allowed_ids)
    if (outside(id, vocab))
      return bias_fault("allowed_ids", "found the id {}, expected 0 to {}", id, vocab - 1);
  return {};
}

}  // namespace

Status check_bias(const BiasSettings& bias, std::span<const int32_t> end_ids, size_t vocab) {
  if (Status status = check_values(bias, vocab); !status.ok()) return status;
  if (bias.logit_bias.empty() && bias.allowed_ids.empty() && bias.min_new_tokens == 0) return {};
  std::vector<bool> left(vocab, bias.allowed_ids.empty()), named(vocab);
  for (const int32_t id : bias.allowed_ids) left[static_cast<size_t>(id)] = true;
  for (const LogitBias& of : bias.logit_bias) {
    const auto id = static_cast<size_t>(of.id);
    if (named[id]) return bias_fault("logit_bias", "found the id {} twice, expected one value for an id", id);
    named[id] = true;
    if (of.value == kForbidden) left[id] = false;
  }
  if (std::ranges::find(left, true) == left.end())
    return bias_fault("logit_bias", "found all ids forbidden, expected one that is left");
  if (bias.min_new_tokens == 0) return {};
  for (const int32_t id : end_ids)
    if (!outside(id, vocab)) left[static_cast<size_t>(id)] = false;
  if (std::ranges::find(left, true) == left.end())
    return bias_fault("min_new_tokens", "found only stop ids left to sample, expected another id");
  return {};
}

}  // namespace mkrt
