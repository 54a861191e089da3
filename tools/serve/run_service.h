// A server lives with its threads and its engine until a signal ends it.
#pragma once

#include "tools/serve/service.h"

namespace mkc {

// RunningService is a service with what its threads share. All must outlive the run.
struct RunningService {
  HttpServer& server;
  EngineLoop& loop;
  Service& service;
};

// Starts to answer for a model, says so, and runs its engine until the loop is stopped. Called on the
// engine's thread.
void serve_engine(const RunningService& running, ServedModel model, mkrt::Engine& engine);

// Serves until a signal. `engine` runs on a thread of its own: it loads the model and calls serve_engine().
// `stop_engine` lets it give up what it waits for.
//
// The first SIGINT or SIGTERM lets requests end for the time of `grace`, and refuses new ones. Those that
// have not ended then get 503. A second one, and one before the model is loaded, is handed to `end_now`.
// Errors: those of `engine`.
mkrt::Status run_service(const RunningService& running, std::chrono::seconds grace,
                         const std::function<mkrt::Status()>& engine,
                         const std::function<void()>& stop_engine, const std::function<void(int)>& end_now);

}  // namespace mkc
