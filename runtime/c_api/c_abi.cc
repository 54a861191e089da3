#include "runtime/c_api/c_abi.h"

#include "runtime/base/file.h"

using mkrt::fail, mkrt::failed, mkrt::guarded, mkrt::missing;

namespace {

constexpr uint32_t kMaxKernels = 1 << 16;

mkrt_session* open_session(mkrt_device* device, const mkrt::Artefact& artefact,
                           const std::string& directory) {
  const mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(directory);
  if (!checkpoint.ok()) return fail<mkrt_session>(checkpoint.error());
  const mkrt::Result<std::string> config = mkrt::read_text(directory + "/config.json", size_t{1} << 20);
  if (!config.ok()) return fail<mkrt_session>(config.error());
  mkrt::SessionOptions options;
  options.seal = device->seal;
  options.kept_weights.path = device->kept_weights;
  mkrt::Result<mkrt::Session> session = mkrt::Session::open(
      artefact, checkpoint.value(), mkrt::hash_hex(config.value()), *device->device, options);
  if (!session.ok()) return fail<mkrt_session>(session.error());
  auto* opened = new mkrt_session{device->device, std::move(session.value())};
  mkrt::open_sessions().add(opened);
  return opened;
}

mkrt_device* given_out(std::unique_ptr<mkrt::Device> device) {
  std::string name = device->name();
  auto* opened = new mkrt_device{std::move(device), std::move(name)};
  mkrt::open_devices().add(opened);
  return opened;
}

mkrt_device* open_emulator(mkrt::StepKernels kernels, uint64_t seed) {
  mkrt::EmulatorDeviceOptions options;
  options.seed = seed;
  return given_out(mkrt::open_emulator(std::move(kernels), options));
}

// Tells whether a size is larger than any array, and keeps the error.
bool too_large(size_t bytes, const char* name) {
  if (bytes <= PTRDIFF_MAX) return false;
  mkrt::last_error =
      fmt::format("mkrt: error: {} has {} bytes, expected at most {}", name, bytes, PTRDIFF_MAX);
  return true;
}

std::span<const std::byte> bytes_of(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), data ? size : 0};
}

}  // namespace

mkrt::Handles& mkrt::open_devices() {
  static Handles handles;
  return handles;
}
mkrt::Handles& mkrt::open_sessions() {
  static Handles handles;
  return handles;
}

const char* mkrt_version(void) {
  return MKRT_VERSION;
}

const char* mkrt_error(void) {
  return mkrt::last_error.c_str();
}

mkrt_device* mkrt_open_cuda(int ordinal) {
  return guarded(
      [&]() -> mkrt_device* {
        mkrt::Result<std::unique_ptr<mkrt::Device>> device = mkrt::open_cuda(ordinal);
        if (!device.ok()) return fail<mkrt_device>(device.error());
        return given_out(std::move(device.value()));
      },
      nullptr);
}

mkrt_device* mkrt_open_processor(void) {
  return guarded([] { return given_out(mkrt::open_processor()); }, nullptr);
}

mkrt_device* mkrt_open_emulator(void (*kernel)(const void*, const void*),
                                void (*pack)(const void*, uint32_t, uint32_t), uint64_t seed) {
  return guarded(
      [&]() -> mkrt_device* {
        if (missing(reinterpret_cast<const void*>(kernel), "kernel") ||
            missing(reinterpret_cast<const void*>(pack), "pack"))
          return nullptr;
        return open_emulator(
            {reinterpret_cast<mkrt::KernelEntry>(kernel), {}, reinterpret_cast<mkrt::PackEntry>(pack)}, seed);
      },
      nullptr);
}

mkrt_device* mkrt_open_emulator_kernels(void (*const* kernels)(const void*, const void*, uint32_t),
                                        uint32_t count, void (*pack)(const void*, uint32_t, uint32_t),
                                        uint64_t seed) {
  return guarded(
      [&]() -> mkrt_device* {
        if (missing(kernels, "kernels") || missing(reinterpret_cast<const void*>(pack), "pack"))
          return nullptr;
        if (count == 0 || count > kMaxKernels)
          return fail<mkrt_device>(
              {fmt::format("mkrt: error: {} kernels, expected 1 to {}", count, kMaxKernels)});
        mkrt::StepKernels entries;
        entries.pack = reinterpret_cast<mkrt::PackEntry>(pack);
        for (uint32_t kind = 0; kind < count; ++kind)
          entries.grids.push_back(reinterpret_cast<mkrt::GridEntry>(kernels[kind]));
        return open_emulator(std::move(entries), seed);
      },
      nullptr);
}

const char* mkrt_device_name(const mkrt_device* device) {
  return missing(device) ? nullptr : device->name.c_str();
}

void mkrt_close_device(mkrt_device* device) {
  if (!device || missing(device)) return;
  mkrt::open_devices().remove(device);
  delete device;
}

int mkrt_accept_unsealed(mkrt_device* device, int accept) {
  if (missing(device)) return 1;
  device->seal = accept != 0 ? mkrt::SealCheck::kSkipped : mkrt::SealCheck::kRequired;
  return 0;
}

int mkrt_keep_weights(mkrt_device* device, const char* folder) {
  if (missing(device)) return 1;
  device->kept_weights = folder ? folder : "";
  return 0;
}

mkrt_session* mkrt_open_session(mkrt_device* device, const char* path, const char* checkpoint) {
  return guarded(
      [&]() -> mkrt_session* {
        if (missing(device) || missing(path, "artefact") || missing(checkpoint, "checkpoint")) return nullptr;
        const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(path, device->seal);
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
        if (missing(device) || missing(manifest, "manifest") || missing(plan, "plan") ||
            missing(checkpoint, "checkpoint"))
          return nullptr;
        if (too_large(manifest_bytes, "manifest") || too_large(plan_bytes, "plan") ||
            too_large(image_bytes, "image") || (image_bytes > 0 && missing(image, "image")))
          return nullptr;
        const mkrt::Result<mkrt::Artefact> artefact =
            mkrt::make_artefact({manifest, manifest_bytes}, bytes_of(plan, plan_bytes),
                                bytes_of(image, image_bytes), device->seal);
        if (!artefact.ok()) return fail<mkrt_session>(artefact.error());
        return open_session(device, artefact.value(), checkpoint);
      },
      nullptr);
}

void mkrt_close_session(mkrt_session* session) {
  if (!session || missing(session)) return;
  mkrt::open_sessions().remove(session);
  delete session;
}

uint32_t mkrt_vocab(const mkrt_session* session) {
  return missing(session) ? 0 : static_cast<uint32_t>(session->session.manifest().vocab);
}
uint32_t mkrt_max_tokens(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.max_tokens();
}
uint32_t mkrt_context(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.context();
}
uint32_t mkrt_position(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.position();
}

int mkrt_rewind(mkrt_session* session, uint32_t position) {
  return guarded(
      [&] {
        if (missing(session)) return 1;
        if (position > session->session.position()) {
          mkrt::last_error = fmt::format("mkrt: error: cannot go back to position {}, the session is at {}",
                                         position, session->session.position());
          return 1;
        }
        session->session.set_position(position);
        return 0;
      },
      1);
}

uint32_t mkrt_max_requests(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.limits().max_requests;
}
uint32_t mkrt_page_size(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.limits().page_size;
}
uint32_t mkrt_pages(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.limits().pages;
}
uint32_t mkrt_caches(const mkrt_session* session) {
  return missing(session) ? 0 : static_cast<uint32_t>(session->session.manifest().caches.size());
}

int mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form) {
  return guarded(
      [&] {
        if (missing(session)) return 1;
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
        if (missing(session) || missing(base, "base")) return 1;
        if (const size_t max = session->session.manifest().caches.size(); caches != max)
          return failed(
              mkrt::Error{fmt::format("cache: error: {} addresses, the model has {} caches", caches, max)});
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
        if (missing(session) || missing(scales, "scales")) return 1;
        return failed(session->session.use_scales({scales, count}));
      },
      1);
}
