#include "runtime/engine/request.h"

#include <fmt/format.h>

#include "runtime/session/pages.h"

namespace mkrt {
namespace {

// Returns what is wrong with the first id outside the vocabulary, or "".
std::string fault_of(std::string_view item, const std::vector<int32_t>& ids, uint32_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocab)
      return fmt::format("{} {} has the id {}, expected 0 to {}", item, i, ids[i], vocab - 1);
  return "";
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kError:
      return "error";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

Error error_of(const Request& request, const Status& status) {
  std::string message = status.error().message;
  return Error{fmt::format("{}: error: {}", request.name, message.replace(message.find(": error"), 7, ""))};
}

Result<uint32_t> positions_of(const Request& request, const BatchLimits& limits) {
  const auto error = [&](std::string_view field, const std::string& message) {
    return Error{fmt::format("{}: error: {}: {}", request.name, field, message)};
  };
  const std::vector<int32_t>& prompt = request.prompt;
  if (prompt.empty()) return error("prompt", "is empty, expected at least one token");
  if (const std::string fault = fault_of("token", prompt, limits.vocab); !fault.empty())
    return error("prompt", fault);
  if (const std::string fault = fault_of("entry", request.stop_ids, limits.vocab); !fault.empty())
    return error("stop_ids", fault);
  if (request.max_new_tokens == 0) return error("max_new_tokens", "found 0, expected 1 or more");
  if (const Status status = check_sampling(request.sampling); !status.ok()) return error_of(request, status);
  if (request.prompt_logprobs > 1 + kMaxTop)
    return error("prompt_logprobs",
                 fmt::format("found {}, expected at most {}", request.prompt_logprobs - 1, kMaxTop));
  if (request.arrive_at_step > kLatestArrival)
    return error("arrive_at_step",
                 fmt::format("found {}, expected at most {}", request.arrive_at_step, kLatestArrival));
  const uint64_t positions = prompt.size() + request.max_new_tokens - 1;
  const std::string found = fmt::format("{} tokens and {} new ones", prompt.size(), request.max_new_tokens);
  if (positions > limits.context)
    return error("prompt",
                 fmt::format("{} need {} positions, the context has {}", found, positions, limits.context));
  const uint64_t pages = pages_for(positions, limits.page_size);
  if (pages > limits.pages)
    return error("prompt", fmt::format("{} need {} pages of {} positions, the cache has {}", found, pages,
                                       limits.page_size, limits.pages));
  return static_cast<uint32_t>(positions);
}

}  // namespace mkrt
