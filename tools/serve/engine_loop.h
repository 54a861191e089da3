// One thread owns the engine. Others submit and cancel requests by commands.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace mkc {

// TokenEvent is what a step gave a request: new tokens, its end, or both.
struct TokenEvent {
  uint64_t key = 0;
  std::vector<int32_t> ids;
  std::vector<mkrt::Sampled> samples;  // of ids, if log-probabilities were asked for
  std::vector<mkrt::Sampled> prompt_samples =
      {};  // beside the first ids: of the prompt's tokens from the second
  std::optional<mkrt::FinishReason> finish = {};
  std::string error = {};      // where finish is kError
  uint32_t cached_tokens = 0;  // tokens of its prompt from the prefix cache
};

struct StepReport {
  std::vector<TokenEvent> events;
  mkrt::EngineStats stats;
  std::string fault;  // of the device: later requests fail, too, until a report has no fault
  std::chrono::steady_clock::time_point at;
};

// EngineLoop is thread-safe, but for run().
class EngineLoop {
 public:
  // Gives the engine a request. The caller makes up a key, which is used once.
  void submit(uint64_t key, mkrt::Request request);
  // Ends a request between steps. Its last event has the reason kCancelled, unless it has ended before.
  void cancel(uint64_t key);
  // Calls a function on the engine's thread between launches, once the commands before it are carried out.
  // A loop that is stopped may drop the function.
  void between_launches(std::function<void()> function);
  void stop();

  // Runs steps until stop(), and waits while there is nothing to do. Looks each second whether an idle
  // engine's device is there. `deliver` is called on this thread after each launch and each look. No lock is
  // held during a launch.
  void run(mkrt::Engine& engine, const std::function<void(StepReport)>& deliver);

 private:
  struct Command {
    uint64_t key = 0;
    std::optional<mkrt::Request> request;  // none: cancel
    std::function<void()> function = {};   // stands alone, if there is one
  };
  bool take_commands(mkrt::Engine& engine);
  void put(Command command);
  StepReport report(mkrt::Engine& engine, const mkrt::Status& status);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  bool stopped_ = false;
  // The loop's thread alone uses these.
  std::map<uint64_t, uint64_t> key_of_, id_of_;  // engine's id and key of live requests
};

}  // namespace mkc
