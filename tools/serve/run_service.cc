#include "tools/serve/run_service.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "ir/diag.h"

namespace mkc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::seconds kLastAnswers{1};  // clients get it to take what ends their requests

mkrt::Status run_engine(const std::function<mkrt::Status()>& engine) {
  try {
    return engine();
  } catch (const std::bad_alloc&) {
    return mkrt::Error{"mkc: error: out of memory"};
  } catch (const std::system_error& e) {
    return mkrt::Error{fmt::format("mkc: error: {}", e.what())};
  } catch (const std::exception& e) {
    MKC_BUG(e.what());
  }
}

std::string ready_line(const ServedModel& model) {
  const mkrt::BatchLimits& l = model.limits;
  return fmt::format(
      "mkc serve: ready: {} on {}: steps of {} requests and {} tokens, {} positions a request, {} pages of "
      "{}\n",
      model.name, model.device, l.max_requests, l.max_tokens, model.positions(), l.pages, l.page_size);
}

}  // namespace

void serve_engine(const RunningService& running, ServedModel model, mkrt::Engine& engine) {
  const auto shared = std::make_shared<const ServedModel>(std::move(model));
  running.server.post([&service = running.service, shared] {
    service.begin(shared);
    std::fputs(ready_line(*shared).c_str(), stderr);
  });
  running.loop.run(engine, [&running](StepReport report) {
    running.server.post([&service = running.service, report = std::move(report)]() mutable {
      service.take(std::move(report));
    });
  });
}

mkrt::Status run_service(const RunningService& running, std::chrono::seconds grace,
                         const std::function<mkrt::Status()>& engine,
                         const std::function<void()>& stop_engine, const std::function<void(int)>& end_now) {
  HttpServer& server = running.server;
  mkrt::Status ended;
  std::optional<Clock::time_point> deadline;  // set once the server drains
  server.on_signal([&](int signal) {
    if (!running.service.has_model() || deadline) return end_now(signal);
    deadline = Clock::now() + grace;
    running.service.drain();
    std::fputs(fmt::format("mkc serve: stopping: requests have {} s to end, a second signal ends them\n",
                           grace.count())
                   .c_str(),
               stderr);
  });
  server.every(kTick, [&] {
    running.service.tick();
    if (!deadline) return;
    const Clock::time_point now = Clock::now();
    if (now > *deadline) running.service.end_all();
    if (!server.busy() || now > *deadline + kLastAnswers) server.stop();
  });
  std::thread thread;
  try {
    thread = std::thread([&] {
      mkrt::Status status = run_engine(engine);
      server.post([&, status = std::move(status)] {
        ended = status;
        server.stop();
      });
    });
  } catch (const std::system_error& e) {
    return mkrt::Error{fmt::format("mkc: error: no thread: {}", e.what())};
  }
  server.run([&service = running.service](const ExchangePtr& exchange, HttpRequest request) {
    service.handle(exchange, std::move(request));
  });
  running.loop.stop();
  stop_engine();
  thread.join();
  return ended;
}

}  // namespace mkc
