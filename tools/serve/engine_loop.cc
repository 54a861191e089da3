#include "tools/serve/engine_loop.h"

#include <utility>

namespace mkc {
namespace {

constexpr std::chrono::seconds kCheck{1};  // from one look at an idle device to the next

}  // namespace

void EngineLoop::put(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
}

void EngineLoop::submit(uint64_t key, mkrt::Request request) {
  put({key, std::move(request)});
}

void EngineLoop::cancel(uint64_t key) {
  put({key, {}});
}

void EngineLoop::between_launches(std::function<void()> function) {
  put({0, {}, std::move(function)});
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
}

// Carries out the commands, waiting for one at most kCheck while the engine is idle. Returns false once the
// loop is stopped.
bool EngineLoop::take_commands(mkrt::Engine& engine) {
  std::vector<Command> commands;
  {
    std::unique_lock lock(mutex_);
    if (engine.idle()) changed_.wait_for(lock, kCheck, [&] { return stopped_ || !commands_.empty(); });
    if (stopped_) return false;
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    if (command.function) {
      command.function();
    } else if (command.request) {
      const uint64_t id = engine.submit(std::move(*command.request));
      key_of_[id] = command.key;
      id_of_[command.key] = id;
    } else if (const auto found = id_of_.find(command.key); found != id_of_.end()) {
      (void)engine.cancel(found->second);  // a request that has ended needs no cancel
    }
  }
  return true;
}

StepReport EngineLoop::report(mkrt::Engine& engine, const mkrt::Status& status) {
  StepReport report{.events = {},
                    .stats = engine.stats(),
                    .fault = status.ok() ? "" : status.error().message,
                    .at = std::chrono::steady_clock::now()};
  std::map<uint64_t, size_t> event_of;  // index in `events`, by the engine's id
  const auto event = [&](uint64_t id) -> TokenEvent& {
    const auto [at, is_new] = event_of.try_emplace(id, report.events.size());
    if (is_new) report.events.push_back({.key = key_of_.at(id), .ids = {}, .samples = {}});
    return report.events[at->second];
  };
  for (mkrt::Progress& progress : engine.take_progress()) {
    TokenEvent& to = event(progress.id);
    to.ids.insert(to.ids.end(), progress.ids.begin(), progress.ids.end());
    std::move(progress.samples.begin(), progress.samples.end(), std::back_inserter(to.samples));
    to.cached_tokens = progress.cached_tokens;
    if (!progress.prompt_samples.empty()) to.prompt_samples = std::move(progress.prompt_samples);
  }
  for (mkrt::Outcome& outcome : engine.take_outcomes()) {
    TokenEvent& to = event(outcome.id);
    to.finish = outcome.reason;
    to.error = std::move(outcome.error);
    to.cached_tokens = outcome.cached_tokens;
    id_of_.erase(to.key);
    key_of_.erase(outcome.id);
  }
  return report;
}

void EngineLoop::run(mkrt::Engine& engine, const std::function<void(StepReport)>& deliver) {
  while (take_commands(engine)) {
    const mkrt::Status status = engine.idle() ? engine.check() : engine.step();
    deliver(report(engine, status));
  }
}

}  // namespace mkc
