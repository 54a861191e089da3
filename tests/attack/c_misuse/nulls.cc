// Every function of mkrt.h gets NULL for each of its pointers.
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "tests/attack/c_misuse/opened.h"

namespace mkc::attack {
namespace {

// Returns pointers by function, as the header declares them: "mkrt_step" -> {"session", "tokens", "logits",
// "next"}.
std::map<std::string, std::set<std::string>> declared_pointers() {
  std::ifstream in(MKC_SOURCE_DIR "/runtime/c_api/mkrt.h");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text = std::regex_replace(text, std::regex(R"(/\*[^]*?\*/)"), "");
  // Pointers to functions keep their names alone.
  text = std::regex_replace(text, std::regex(R"(void \(\*(?:const\*)? ?(\w+)\)\([^)]*\))"), "void* $1");
  std::map<std::string, std::set<std::string>> pointers;
  const std::regex function(R"((mkrt_\w+)\(([^)]*)\);)"), pointer(R"(\* ?(\w+)\s*(?:,|$))");
  for (std::sregex_iterator at(text.begin(), text.end(), function), end; at != end; ++at) {
    const std::string arguments = (*at)[2];
    std::set<std::string>& names = pointers[(*at)[1]];
    for (std::sregex_iterator p(arguments.begin(), arguments.end(), pointer); p != end; ++p)
      names.insert((*p)[1]);
  }
  return pointers;
}

struct Call {
  std::string function, argument;
  std::function<bool(const Opened&)> fails;  // makes the call with NULL there; true: it failed
  std::string error = "";                    // "": NULL is allowed, and the call must not fail
};

std::string null_of(const std::string& argument) {
  return "mkrt: error: " + argument + " is NULL";
}

// Returns calls of functions whose only pointer is a session.
std::vector<Call> session_calls() {
  const auto call = [](const char* name, auto f) {
    return Call{name, "session", [f](const Opened&) { return f(nullptr); }, null_of("session")};
  };
  using S = mkrt_session*;
  return {call("mkrt_vocab", [](S s) { return mkrt_vocab(s) == 0; }),
          call("mkrt_max_tokens", [](S s) { return mkrt_max_tokens(s) == 0; }),
          call("mkrt_context", [](S s) { return mkrt_context(s) == 0; }),
          call("mkrt_position", [](S s) { return mkrt_position(s) == 0; }),
          call("mkrt_rewind", [](S s) { return mkrt_rewind(s, 0) != 0; }),
          call("mkrt_max_requests", [](S s) { return mkrt_max_requests(s) == 0; }),
          call("mkrt_page_size", [](S s) { return mkrt_page_size(s) == 0; }),
          call("mkrt_pages", [](S s) { return mkrt_pages(s) == 0; }),
          call("mkrt_caches", [](S s) { return mkrt_caches(s) == 0; }),
          call("mkrt_make_cache", [](S s) { return mkrt_make_cache(s, 16, 1, MKRT_NHD) != 0; }),
          call("mkrt_trace", [](S s) { return mkrt_trace(s) == nullptr; }),
          call("mkrt_set_timeout", [](S s) { return mkrt_set_timeout(s, 1) != 0; }),
          call("mkrt_logits", [](S s) { return mkrt_logits(s) == 0; })};
}

std::vector<Call> device_calls() {
  const Compiled& c = compiled();
  const Emulated& e = emulated();
  const auto from_memory = [&c](mkrt_device* d, const char* manifest, const void* plan,
                                const char* checkpoint) {
    return !mkrt_open_session_from_memory(d, manifest, c.manifest.size(), plan, c.artefact.plan.size(),
                                          nullptr, 0, checkpoint);
  };
  const char *manifest = c.manifest.data(), *directory = kCheckpoint.c_str();
  const void* plan = c.artefact.plan.data();
  return {
      {"mkrt_open_emulator", "kernel", [&](const Opened&) { return !mkrt_open_emulator(nullptr, e.pack, 0); },
       null_of("kernel")},
      {"mkrt_open_emulator", "pack", [&](const Opened&) { return !mkrt_open_emulator(e.kernel, nullptr, 0); },
       null_of("pack")},
      {"mkrt_open_emulator_kernels", "kernels",
       [&](const Opened&) { return !mkrt_open_emulator_kernels(nullptr, 1, e.pack, 0); }, null_of("kernels")},
      {"mkrt_open_emulator_kernels", "pack",
       [](const Opened&) {
         void (*const none[])(const void*, const void*, uint32_t) = {nullptr};
         return !mkrt_open_emulator_kernels(none, 1, nullptr, 0);
       },
       null_of("pack")},
      {"mkrt_device_name", "device", [](const Opened&) { return !mkrt_device_name(nullptr); },
       null_of("device")},
      {"mkrt_accept_unsealed", "device", [](const Opened&) { return mkrt_accept_unsealed(nullptr, 1) != 0; },
       null_of("device")},
      {"mkrt_keep_weights", "device", [](const Opened&) { return mkrt_keep_weights(nullptr, "d") != 0; },
       null_of("device")},
      {"mkrt_keep_weights", "folder",
       [](const Opened& o) { return mkrt_keep_weights(o.device, nullptr) != 0; }},
      {"mkrt_close_device", "device", [](const Opened&) { return mkrt_close_device(nullptr), false; }},
      {"mkrt_close_session", "session", [](const Opened&) { return mkrt_close_session(nullptr), false; }},
      {"mkrt_open_session", "device",
       [=](const Opened&) { return !mkrt_open_session(nullptr, "f", directory); }, null_of("device")},
      {"mkrt_open_session", "artefact",
       [=](const Opened& o) { return !mkrt_open_session(o.device, nullptr, directory); },
       null_of("artefact")},
      {"mkrt_open_session", "checkpoint",
       [](const Opened& o) { return !mkrt_open_session(o.device, "f", nullptr); }, null_of("checkpoint")},
      {"mkrt_open_session_from_memory", "device",
       [=](const Opened&) { return from_memory(nullptr, manifest, plan, directory); }, null_of("device")},
      {"mkrt_open_session_from_memory", "manifest",
       [=](const Opened& o) { return from_memory(o.device, nullptr, plan, directory); }, null_of("manifest")},
      {"mkrt_open_session_from_memory", "plan",
       [=](const Opened& o) { return from_memory(o.device, manifest, nullptr, directory); }, null_of("plan")},
      {"mkrt_open_session_from_memory", "checkpoint",
       [=](const Opened& o) { return from_memory(o.device, manifest, plan, nullptr); },
       null_of("checkpoint")},
      {"mkrt_open_session_from_memory", "image", [&](const Opened&) {
         mkrt_device* device = mkrt_open_emulator(e.kernel, e.pack, 0);
         mkrt_session* session = open_emulated_session(device);
         mkrt_close_session(session);
         mkrt_close_device(device);
         return !session;
       }}};
}

std::vector<Call> step_calls() {
  static Step s;
  static mkrt_batch batch = s.batch();
  static mkrt_samples samples = s.samples();
  const int32_t* tokens = s.tokens.data();
  int32_t* next = s.next.data();
  return {
      {"mkrt_step", "session",
       [=](const Opened&) { return mkrt_step(nullptr, tokens, 1, nullptr, next) != 0; }, null_of("session")},
      {"mkrt_step", "tokens",
       [=](const Opened& o) { return mkrt_step(o.session, nullptr, 1, nullptr, next) != 0; },
       null_of("tokens")},
      {"mkrt_step", "logits",
       [=](const Opened& o) { return mkrt_step(o.session, tokens, 1, nullptr, next) != 0; }},
      {"mkrt_step", "next",
       [=](const Opened& o) { return mkrt_step(o.session, tokens, 1, nullptr, nullptr) != 0; }},
      {"mkrt_sample", "session",
       [=](const Opened&) { return mkrt_sample(nullptr, tokens, 1, &samples) != 0; }, null_of("session")},
      {"mkrt_sample", "tokens",
       [=](const Opened& o) { return mkrt_sample(o.session, nullptr, 1, &samples) != 0; }, null_of("tokens")},
      {"mkrt_sample", "samples",
       [=](const Opened& o) { return mkrt_sample(o.session, tokens, 1, nullptr) != 0; }, null_of("samples")},
      {"mkrt_use_cache", "session",
       [](const Opened&) { return mkrt_use_cache(nullptr, 16, 1, 1, 1, 1, nullptr, 0) != 0; },
       null_of("session")},
      {"mkrt_use_cache", "base",
       [](const Opened& o) { return mkrt_use_cache(o.session, 16, 1, 1, 1, 1, nullptr, 4) != 0; },
       null_of("base")},
      {"mkrt_use_scales", "session", [](const Opened&) { return mkrt_use_scales(nullptr, nullptr, 0) != 0; },
       null_of("session")},
      {"mkrt_use_scales", "scales",
       [](const Opened& o) { return mkrt_use_scales(o.session, nullptr, 4) != 0; }, null_of("scales")},
      {"mkrt_step_batch", "session",
       [=](const Opened&) { return mkrt_step_batch(nullptr, &batch, nullptr, next) != 0; },
       null_of("session")},
      {"mkrt_step_batch", "batch",
       [=](const Opened& o) { return mkrt_step_batch(o.session, nullptr, nullptr, next) != 0; },
       null_of("batch")},
      {"mkrt_step_batch", "logits",
       [=](const Opened& o) { return mkrt_step_batch(o.session, &batch, nullptr, next) != 0; }},
      {"mkrt_step_batch", "next",
       [=](const Opened& o) { return mkrt_step_batch(o.session, &batch, nullptr, nullptr) != 0; },
       null_of("next")},
      {"mkrt_sample_batch", "session",
       [=](const Opened&) { return mkrt_sample_batch(nullptr, &batch, &samples) != 0; }, null_of("session")},
      {"mkrt_sample_batch", "batch",
       [=](const Opened& o) { return mkrt_sample_batch(o.session, nullptr, &samples) != 0; },
       null_of("batch")},
      {"mkrt_sample_batch", "samples",
       [=](const Opened& o) { return mkrt_sample_batch(o.session, &batch, nullptr) != 0; },
       null_of("samples")},
      {"mkrt_finite", "session", [](const Opened&) { return mkrt_finite(nullptr, nullptr, 1) != 0; },
       null_of("session")},
      {"mkrt_finite", "finite", [](const Opened& o) { return mkrt_finite(o.session, nullptr, 1) != 0; },
       null_of("finite")},
      {"mkrt_read_tensor", "session",
       [=](const Opened&) { return mkrt_read_tensor(nullptr, "logits", next, 4) != 0; }, null_of("session")},
      {"mkrt_read_tensor", "name",
       [=](const Opened& o) { return mkrt_read_tensor(o.session, nullptr, next, 4) != 0; }, null_of("name")},
      {"mkrt_read_tensor", "to",
       [](const Opened& o) { return mkrt_read_tensor(o.session, "logits", nullptr, 4) != 0; }, null_of("to")},
      {"mkrt_set_stream", "session", [](const Opened&) { return mkrt_set_stream(nullptr, nullptr) != 0; },
       null_of("session")},
      {"mkrt_set_stream", "stream",
       [](const Opened& o) { return mkrt_set_stream(o.session, nullptr) != 0; }}};
}

std::vector<Call> stream_calls() {
  static Step s;
  static mkrt_batch batch = s.batch();
  const std::string uncaptured = "step: error: the device cpu has no streams: no step can be captured";
  return {
      {"mkrt_begin_step", "session",
       [](const Opened&) { return mkrt_begin_step(nullptr, &batch, nullptr) != 0; }, null_of("session")},
      {"mkrt_begin_step", "batch",
       [](const Opened& o) { return mkrt_begin_step(o.session, nullptr, nullptr) != 0; }, null_of("batch")},
      {"mkrt_begin_step", "samples",
       [](const Opened& o) {
         return mkrt_begin_step(o.session, &batch, nullptr) != 0 ||
                mkrt_end_step(o.session, nullptr, nullptr) != 0;
       }},
      {"mkrt_end_step", "session",
       [](const Opened&) { return mkrt_end_step(nullptr, nullptr, nullptr) != 0; }, null_of("session")},
      {"mkrt_end_step", "next",
       [](const Opened& o) {
         return mkrt_begin_step(o.session, &batch, nullptr) != 0 ||
                mkrt_end_step(o.session, nullptr, nullptr) != 0;
       }},
      {"mkrt_end_step", "samples",
       [](const Opened& o) {
         return mkrt_begin_step(o.session, &batch, nullptr) != 0 ||
                mkrt_end_step(o.session, nullptr, nullptr) != 0;
       }},
      {"mkrt_capture_step", "session", [](const Opened&) { return mkrt_capture_step(nullptr, nullptr) != 0; },
       null_of("session")},
      {"mkrt_capture_step", "max", [](const Opened& o) { return mkrt_capture_step(o.session, nullptr) != 0; },
       uncaptured},
      {"mkrt_fill_step", "session",
       [](const Opened&) { return mkrt_fill_step(nullptr, &batch, nullptr) != 0; }, null_of("session")},
      {"mkrt_fill_step", "batch",
       [](const Opened& o) { return mkrt_fill_step(o.session, nullptr, nullptr) != 0; }, null_of("batch")},
      {"mkrt_fill_step", "samples",
       [](const Opened& o) { return mkrt_fill_step(o.session, &batch, nullptr) != 0; }, uncaptured}};
}

std::vector<Call> engine_calls() {
  static const std::vector<int32_t> prompt{5, 17, 3};
  static const mkrt_request request = request_of(prompt);
  static uint64_t id;
  const auto on_engine = [](auto call) {
    return [call](const Opened& o) {
      const Served e(o.session);
      return call(e.engine) != MKRT_OK;
    };
  };
  return {
      {"mkrt_open_engine", "session", [](const Opened&) { return !mkrt_open_engine(nullptr, nullptr); },
       null_of("session")},
      {"mkrt_open_engine", "options",
       [](const Opened& o) {
         mkrt_engine* engine = mkrt_open_engine(o.session, nullptr);
         mkrt_close_engine(engine);
         return !engine;
       }},
      {"mkrt_close_engine", "engine", [](const Opened&) { return mkrt_close_engine(nullptr), false; }},
      {"mkrt_submit", "engine", [](const Opened&) { return mkrt_submit(nullptr, &request, &id) != 0; },
       null_of("engine")},
      {"mkrt_submit", "request", on_engine([](mkrt_engine* e) { return mkrt_submit(e, nullptr, &id); }),
       null_of("request")},
      {"mkrt_submit", "id", on_engine([](mkrt_engine* e) { return mkrt_submit(e, &request, nullptr); }),
       null_of("id")},
      {"mkrt_cancel", "engine", [](const Opened&) { return mkrt_cancel(nullptr, 0) != 0; },
       null_of("engine")},
      {"mkrt_advance", "engine", [](const Opened&) { return mkrt_advance(nullptr) != 0; }, null_of("engine")},
      {"mkrt_take_progress", "engine",
       [](const Opened&) {
         mkrt_progress progress{};
         return mkrt_take_progress(nullptr, &progress) != 0;
       },
       null_of("engine")},
      {"mkrt_take_progress", "progress",
       on_engine([](mkrt_engine* e) { return mkrt_take_progress(e, nullptr); }), null_of("progress")},
      {"mkrt_take_outcome", "engine",
       [](const Opened&) {
         mkrt_outcome outcome{};
         return mkrt_take_outcome(nullptr, &outcome) != 0;
       },
       null_of("engine")},
      {"mkrt_take_outcome", "outcome",
       on_engine([](mkrt_engine* e) { return mkrt_take_outcome(e, nullptr); }), null_of("outcome")},
      {"mkrt_stats", "engine",
       [](const Opened&) {
         mkrt_engine_stats stats{};
         return mkrt_stats(nullptr, &stats) != 0;
       },
       null_of("engine")},
      {"mkrt_stats", "stats", on_engine([](mkrt_engine* e) { return mkrt_stats(e, nullptr); }),
       null_of("stats")}};
}

std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (const std::vector<Call>& calls :
       {session_calls(), device_calls(), step_calls(), stream_calls(), engine_calls()})
    all.insert(all.end(), calls.begin(), calls.end());
  return all;
}

TEST_CASE("NULL is a typed error wherever the header does not allow it") {
  const Opened o;
  REQUIRE_MESSAGE(o.session, mkrt_error());
  for (const Call& call : all_calls()) {
    CAPTURE(call.function);
    CAPTURE(call.argument);
    const bool failed = call.fails(o);
    CHECK(failed == !call.error.empty());
    if (failed) CHECK(std::string(mkrt_error()) == call.error);
    CHECK(mkrt_vocab(o.session) == 96);  // the session is unchanged
  }
}

TEST_CASE("no pointer of any function is left out") {
  std::map<std::string, std::set<std::string>> tried;
  for (const Call& call : all_calls()) tried[call.function].insert(call.argument);
  const auto declared = declared_pointers();
  CHECK(declared.size() == 48);
  for (const auto& [function, pointers] : declared) {
    CAPTURE(function);
    CHECK(pointers == tried[function]);
  }
}

TEST_CASE("NULL lists of a batch and of draws are named") {
  const Opened o;
  Step s;
  const auto without = [&](auto member) {
    mkrt_batch batch = s.batch();
    batch.*member = nullptr;
    return mkrt_step_batch(o.session, &batch, nullptr, s.next.data());
  };
  MKC_REFUSED(without(&mkrt_batch::tokens), null_of("tokens"));
  MKC_REFUSED(without(&mkrt_batch::row_begin), null_of("row_begin"));
  MKC_REFUSED(without(&mkrt_batch::kv_len), null_of("kv_len"));
  MKC_REFUSED(without(&mkrt_batch::page_begin), null_of("page_begin"));
  MKC_REFUSED(without(&mkrt_batch::page_index), null_of("page_index"));
  const auto draw = [&](auto edit) {
    s.sampling = MKRT_GREEDY;
    mkrt_samples samples = s.samples();
    edit(samples);
    return mkrt_sample(o.session, s.tokens.data(), 3, &samples);
  };
  MKC_REFUSED(draw([](mkrt_samples& d) { d.ids = nullptr; }), null_of("ids"));
  MKC_REFUSED(draw([](mkrt_samples& d) { d.stop_count = 1; }), null_of("stop_ids"));
  MKC_REFUSED(draw([](mkrt_samples& d) { d.bias_count = 1; }), null_of("biases"));
  MKC_REFUSED(draw([&](mkrt_samples&) { s.sampling.logprobs = 1; }), null_of("logprobs"));
  MKC_REFUSED(draw([&](mkrt_samples&) { s.sampling.repetition_penalty = 2; }),
              "step: error: request 0: seen: found 0 words, expected 3, a bit for each id");
}

}  // namespace
}  // namespace mkc::attack
