#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>

#include "runtime/file.h"
#include "runtime/mkrt.h"
#include "runtime/session.h"

struct mkrt_device {
  std::unique_ptr<mkrt::Device> device;
  std::string name;
};

struct mkrt_session {
  mkrt::Session session;
};

namespace {

using mkrt::Status;

thread_local std::string last_error;

// Runs f and keeps what it throws, or the error it returns: nothing may leave a C function.
template <class F>
auto guarded(F f, decltype(f()) failed) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    last_error = fmt::format("mkrt: error: {}", e.what());
  } catch (...) {
    last_error = "mkrt: error: unknown exception";
  }
  return failed;
}

bool missing(const void* argument, const char* name) {
  if (!argument) last_error = fmt::format("mkrt: error: {} is NULL", name);
  return !argument;
}

template <class T>
T* fail(const mkrt::Error& error) {
  last_error = error.message;
  return nullptr;
}

// 0, or 1 and the error kept.
int failed(const mkrt::Status& status) {
  if (!status.ok()) last_error = status.error().message;
  return status.ok() ? 0 : 1;
}

mkrt_session* open_session(mkrt_device* device, const mkrt::Artefact& artefact,
                           const std::string& directory) {
  const mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(directory);
  if (!checkpoint.ok()) return fail<mkrt_session>(checkpoint.error());
  const mkrt::Result<std::string> config = mkrt::read_text(directory + "/config.json", size_t{1} << 20);
  if (!config.ok()) return fail<mkrt_session>(config.error());
  mkrt::Result<mkrt::Session> session =
      mkrt::Session::open(artefact, checkpoint.value(), mkrt::hash_hex(config.value()), *device->device);
  if (!session.ok()) return fail<mkrt_session>(session.error());
  return new mkrt_session{std::move(session.value())};
}

std::vector<std::byte> bytes_of(const void* data, size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  return data ? std::vector<std::byte>(begin, begin + size) : std::vector<std::byte>();
}

static_assert(sizeof(mkrt_sampling) == sizeof(mkrt::MkSampling));
static_assert(offsetof(mkrt_sampling, position) == offsetof(mkrt::MkSampling, position));
static_assert(sizeof(mkrt_logprobs) == sizeof(mkrt::MkLogprobs));
static_assert(offsetof(mkrt_logprobs, top_id) == offsetof(mkrt::MkLogprobs, top_id));

bool lacks_room(const mkrt_draws& draws) {
  return (draws.limit > 0 && missing(draws.ids, "ids")) ||
         (draws.stops > 0 && missing(draws.stop_ids, "stop_ids")) ||
         (draws.limit > 0 && draws.sampling.logprobs > 0 && missing(draws.logprobs, "logprobs"));
}

mkrt::Draws draws_of(const mkrt::Session& session, const mkrt_draws& draws) {
  mkrt::Draws out;
  out.sampling = std::bit_cast<mkrt::MkSampling>(draws.sampling);
  out.limit = draws.limit;
  out.stop_ids = {draws.stop_ids, draws.stops};
  if (draws.seen) out.seen = {draws.seen, (session.limits().vocab + size_t{31}) / 32};
  return out;
}

void give(const mkrt::StepResult& result, uint32_t b, mkrt_draws& to) {
  const std::span<const int32_t> ids = result.of(b);
  std::copy(ids.begin(), ids.end(), to.ids);
  to.count = static_cast<uint32_t>(ids.size());
  if (to.sampling.logprobs > 0 && to.count > 0)
    std::memcpy(to.logprobs, &result.logprobs[result.begin[b]], to.count * sizeof(mkrt_logprobs));
}

bool lacks_lists(const mkrt_batch& batch) {
  return missing(batch.tokens, "tokens") || missing(batch.row_begin, "row_begin") ||
         missing(batch.kv_len, "kv_len") || missing(batch.page_begin, "page_begin") ||
         missing(batch.page_index, "page_index");
}

Status step_batch(mkrt::Session& session, const mkrt_batch& batch, std::span<const mkrt::Draws> draws,
                  mkrt::StepResult& result, float* logits) {
  const size_t requests = batch.requests;
  if (requests > session.limits().max_requests)
    return mkrt::Error{fmt::format("step: error: found {} requests, expected 1 to {}", requests,
                                   session.limits().max_requests)};
  const auto count = [&](const int32_t* begin) { return static_cast<size_t>(std::max(0, begin[requests])); };
  return session.step({{batch.tokens, count(batch.row_begin)},
                       {batch.row_begin, requests + 1},
                       {batch.kv_len, requests},
                       {{batch.page_begin, requests + 1}, {batch.page_index, count(batch.page_begin)}},
                       draws},
                      result, logits);
}

}  // namespace

const char* mkrt_version(void) {
  return MKRT_VERSION;
}

const char* mkrt_error(void) {
  return last_error.c_str();
}

mkrt_device* mkrt_open_cuda(int ordinal) {
  return guarded(
      [&]() -> mkrt_device* {
        mkrt::Result<std::unique_ptr<mkrt::Device>> device = mkrt::open_cuda(ordinal);
        if (!device.ok()) return fail<mkrt_device>(device.error());
        std::string name = device.value()->name();
        return new mkrt_device{std::move(device.value()), std::move(name)};
      },
      nullptr);
}

mkrt_device* mkrt_open_emulator(void (*kernel)(const void*, const void*), uint64_t seed) {
  return guarded(
      [&]() -> mkrt_device* {
        if (missing(reinterpret_cast<const void*>(kernel), "kernel")) return nullptr;
        mkrt::EmulatorDeviceOptions options;
        options.seed = seed;
        return new mkrt_device{
            mkrt::open_emulator({reinterpret_cast<mkrt::KernelEntry>(kernel), {}}, options), "emulator"};
      },
      nullptr);
}

const char* mkrt_device_name(const mkrt_device* device) {
  return missing(device, "device") ? nullptr : device->name.c_str();
}

void mkrt_close_device(mkrt_device* device) {
  delete device;
}

mkrt_session* mkrt_open_session(mkrt_device* device, const char* cubin, const char* checkpoint) {
  return guarded(
      [&]() -> mkrt_session* {
        if (missing(device, "device") || missing(cubin, "cubin") || missing(checkpoint, "checkpoint"))
          return nullptr;
        const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(cubin);
        if (!artefact.ok()) return fail<mkrt_session>(artefact.error());
        return open_session(device, artefact.value(), checkpoint);
      },
      nullptr);
}

mkrt_session* mkrt_open_session_from_memory(mkrt_device* device, const char* manifest, size_t manifest_bytes,
                                            const void* plan, size_t plan_bytes, const void* image,
                                            size_t image_bytes, const char* checkpoint) {
  return guarded(
      [&]() -> mkrt_session* {
        if (missing(device, "device") || missing(manifest, "manifest") || missing(plan, "plan") ||
            missing(checkpoint, "checkpoint"))
          return nullptr;
        mkrt::Artefact artefact;
        mkrt::Result<mkrt::Manifest> parsed = mkrt::parse_manifest({manifest, manifest_bytes});
        if (!parsed.ok()) return fail<mkrt_session>(parsed.error());
        artefact.manifest = std::move(parsed.value());
        artefact.plan = bytes_of(plan, plan_bytes);
        artefact.image = bytes_of(image, image_bytes);
        return open_session(device, artefact, checkpoint);
      },
      nullptr);
}

void mkrt_close_session(mkrt_session* session) {
  delete session;
}

uint32_t mkrt_vocab(const mkrt_session* session) {
  return missing(session, "session") ? 0 : static_cast<uint32_t>(session->session.manifest().vocab);
}
uint32_t mkrt_max_tokens(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.max_tokens();
}
uint32_t mkrt_context(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.context();
}
uint32_t mkrt_position(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.position();
}

int mkrt_rewind(mkrt_session* session, uint32_t position) {
  return guarded(
      [&] {
        if (missing(session, "session")) return 1;
        if (position > session->session.position()) {
          last_error = fmt::format("mkrt: error: cannot go back to position {}, the session is at {}",
                                   position, session->session.position());
          return 1;
        }
        session->session.set_position(position);
        return 0;
      },
      1);
}

int mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits, int32_t* next) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(tokens, "tokens")) return 1;
        const mkrt::Result<int32_t> chosen = session->session.step({tokens, count}, logits);
        if (!chosen.ok()) {
          last_error = chosen.error().message;
          return 1;
        }
        if (next) *next = chosen.value();
        return 0;
      },
      1);
}

uint32_t mkrt_max_requests(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.limits().max_requests;
}
uint32_t mkrt_page_size(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.limits().page_size;
}
uint32_t mkrt_pages(const mkrt_session* session) {
  return missing(session, "session") ? 0 : session->session.limits().pages;
}
uint32_t mkrt_caches(const mkrt_session* session) {
  return missing(session, "session") ? 0 : static_cast<uint32_t>(session->session.manifest().caches.size());
}

int mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form) {
  return guarded(
      [&] {
        if (missing(session, "session")) return 1;
        if (pages == 0 || form < MKRT_NHD || form > MKRT_PACKED)
          return failed(
              mkrt::Error{fmt::format("mkrt: error: {} pages of form {}, expected 1 or more of 0 to 2", pages,
                                      static_cast<int>(form))});
        return failed(session->session.use_cache({page_size, pages, static_cast<mkrt::CacheForm>(form), {}}));
      },
      1);
}

int mkrt_use_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, uint64_t page_stride,
                   uint64_t position_stride, uint64_t head_stride, const uint64_t* base, uint32_t caches) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(base, "base")) return 1;
        mkrt::CacheOptions options;
        options.space = mkrt::CacheSpace{
            page_size, pages, {page_stride, position_stride, head_stride}, {base, base + caches}};
        return failed(session->session.use_cache(options));
      },
      1);
}

int mkrt_use_scales(mkrt_session* session, const float* scales, uint32_t count) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(scales, "scales")) return 1;
        return failed(session->session.use_scales({scales, count}));
      },
      1);
}

int mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(batch, "batch") || missing(next, "next") ||
            lacks_lists(*batch))
          return 1;
        mkrt::StepResult result;
        const Status status = step_batch(session->session, *batch, {}, result, logits);
        std::copy(result.ids.begin(), result.ids.end(), next);
        return failed(status);
      },
      1);
}

mkrt_sampling mkrt_greedy(void) {
  return std::bit_cast<mkrt_sampling>(mkrt::MkSampling{});
}

int mkrt_draw(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_draws* draws) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(tokens, "tokens") || missing(draws, "draws") ||
            lacks_room(*draws))
          return 1;
        mkrt::StepResult result;
        const Status status =
            session->session.step({tokens, count}, draws_of(session->session, *draws), result);
        if (status.ok()) give(result, 0, *draws);
        return failed(status);
      },
      1);
}

int mkrt_draw_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_draws* draws) {
  return guarded(
      [&] {
        if (missing(session, "session") || missing(batch, "batch") || missing(draws, "draws") ||
            lacks_lists(*batch))
          return 1;
        std::vector<mkrt::Draws> wanted;
        for (uint32_t b = 0; b < batch->requests; ++b) {
          if (lacks_room(draws[b])) return 1;
          wanted.push_back(draws_of(session->session, draws[b]));
        }
        mkrt::StepResult result;
        const Status status = step_batch(session->session, *batch, wanted, result, nullptr);
        for (uint32_t b = 0; b < batch->requests && status.ok(); ++b) give(result, b, draws[b]);
        return failed(status);
      },
      1);
}
