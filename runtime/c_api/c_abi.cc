#include "runtime/c_api/c_abi.h"

#include "runtime/base/file.h"

using mkrt::Claim, mkrt::fail, mkrt::guarded, mkrt::keep, mkrt::missing, mkrt::present, mkrt::refuse;

namespace {

constexpr uint32_t kMaxKernels = 1 << 16;

mkrt_session* open_session(const Claim<mkrt_device>& device, const mkrt::Artefact& artefact,
                           const std::string& directory) {
  const mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(directory);
  if (!checkpoint.ok()) return fail<mkrt_session>(checkpoint.error(), MKRT_BAD_FILE);
  const mkrt::Result<std::string> config = mkrt::read_text(directory + "/config.json", size_t{1} << 20);
  if (!config.ok()) return fail<mkrt_session>(config.error(), MKRT_BAD_FILE);
  mkrt::SessionOptions options;
  options.seal = device->seal;
  options.kept_weights.path = device->kept_weights;
  mkrt::Result<mkrt::Session> session = mkrt::Session::open(
      artefact, checkpoint.value(), mkrt::hash_hex(config.value()), *device->device->device, options);
  if (!session.ok()) return fail<mkrt_session>(session.error(), MKRT_BAD_FILE);
  return mkrt::handles_of<mkrt_session>().add(
      std::make_shared<mkrt_session>(device->device, std::move(session.value())));
}

mkrt_device* given_out(std::unique_ptr<mkrt::Device> device) {
  std::string name = device->name();
  return mkrt::handles_of<mkrt_device>().add(
      std::make_shared<mkrt_device>(std::make_shared<mkrt::OpenDevice>(std::move(device)), std::move(name)));
}

mkrt_device* open_emulator(mkrt::StepKernels kernels, uint64_t seed) {
  mkrt::EmulatorDeviceOptions options;
  options.seed = seed;
  return given_out(mkrt::open_emulator(std::move(kernels), options));
}

// Tells whether a path is NULL or empty, and keeps the error.
bool no_path(const char* path, const char* name) {
  if (missing(path, name)) return true;
  if (*path == '\0') refuse("{} is empty, expected a path", name);
  return *path == '\0';
}

// Tells whether a size is larger than any array, and keeps the error.
bool too_large(size_t bytes, const char* name) {
  if (bytes <= PTRDIFF_MAX) return false;
  refuse("{} has {} bytes, expected at most {}", name, bytes, PTRDIFF_MAX);
  return true;
}

std::span<const std::byte> bytes_of(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), data ? size : 0};
}

// Returns what never changes in a session, or 0, and then keeps the error.
template <class F>
uint32_t constant(const mkrt_session* session, F f) {
  return guarded(
      [&] {
        uint32_t value = 0;
        const auto read = [&](const std::shared_ptr<mkrt_session>& open) { value = f(open->session); };
        if (!mkrt::handles_of<mkrt_session>().with(session, read)) mkrt::not_open(session);
        return value;
      },
      0);
}

}  // namespace

const char* mkrt_version(void) {
  return MKRT_VERSION;
}

const char* mkrt_error(void) {
  return mkrt::last_error.message;
}

mkrt_status mkrt_error_status(void) {
  return mkrt::last_error.status;
}

mkrt_device* mkrt_open_cuda(int ordinal) {
  return guarded(
      [&]() -> mkrt_device* {
        mkrt::Result<std::unique_ptr<mkrt::Device>> device = mkrt::open_cuda(ordinal);
        if (!device.ok()) return fail<mkrt_device>(device.error(), MKRT_NO_DEVICE);
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
        if (count == 0 || count > kMaxKernels) {
          refuse("{} kernels, expected 1 to {}", count, kMaxKernels);
          return nullptr;
        }
        mkrt::StepKernels entries;
        entries.pack = reinterpret_cast<mkrt::PackEntry>(pack);
        for (uint32_t kind = 0; kind < count; ++kind)
          entries.grids.push_back(reinterpret_cast<mkrt::GridEntry>(kernels[kind]));
        return open_emulator(std::move(entries), seed);
      },
      nullptr);
}

const char* mkrt_device_name(const mkrt_device* device) {
  return guarded(
      [&] {
        const char* name = nullptr;
        const auto read = [&](const std::shared_ptr<mkrt_device>& open) { name = open->name.c_str(); };
        if (!mkrt::handles_of<mkrt_device>().with(device, read)) mkrt::not_open(device);
        return name;
      },
      nullptr);
}

void mkrt_close_device(mkrt_device* device) {
  guarded([&] { mkrt::close(device); });
}

mkrt_status mkrt_accept_unsealed(mkrt_device* device, int accept) {
  return guarded([&] {
    const Claim claim(device);
    if (!claim) return mkrt::last_status();
    claim->seal = accept != 0 ? mkrt::SealCheck::kSkipped : mkrt::SealCheck::kRequired;
    return MKRT_OK;
  });
}

mkrt_status mkrt_keep_weights(mkrt_device* device, const char* folder) {
  return guarded([&] {
    const Claim claim(device);
    if (!claim) return mkrt::last_status();
    claim->kept_weights = folder ? folder : "";
    return MKRT_OK;
  });
}

mkrt_session* mkrt_open_session(mkrt_device* device, const char* path, const char* checkpoint) {
  return guarded(
      [&]() -> mkrt_session* {
        const Claim claim(device);
        if (!claim || no_path(path, "artefact") || no_path(checkpoint, "checkpoint")) return nullptr;
        const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(path, claim->seal);
        if (!artefact.ok()) return fail<mkrt_session>(artefact.error(), MKRT_BAD_FILE);
        return open_session(claim, artefact.value(), checkpoint);
      },
      nullptr);
}

mkrt_session* mkrt_open_session_from_memory(mkrt_device* device, const char* manifest, size_t manifest_bytes,
                                            const void* plan, size_t plan_bytes, const void* image,
                                            size_t image_bytes, const char* checkpoint) {
  return guarded(
      [&]() -> mkrt_session* {
        const Claim claim(device);
        if (!claim || missing(manifest, "manifest") || missing(plan, "plan") ||
            no_path(checkpoint, "checkpoint"))
          return nullptr;
        if (too_large(manifest_bytes, "manifest") || too_large(plan_bytes, "plan") ||
            too_large(image_bytes, "image") || (image_bytes > 0 && missing(image, "image")))
          return nullptr;
        const mkrt::Result<mkrt::Artefact> artefact =
            mkrt::make_artefact({manifest, manifest_bytes}, bytes_of(plan, plan_bytes),
                                bytes_of(image, image_bytes), claim->seal);
        if (!artefact.ok()) return fail<mkrt_session>(artefact.error(), MKRT_BAD_FILE);
        return open_session(claim, artefact.value(), checkpoint);
      },
      nullptr);
}

void mkrt_close_session(mkrt_session* session) {
  guarded([&] { mkrt::close(session); });
}

uint32_t mkrt_vocab(const mkrt_session* session) {
  return constant(session, [](const mkrt::Session& s) { return s.limits().vocab; });
}
uint32_t mkrt_max_tokens(const mkrt_session* session) {
  return constant(session, [](const mkrt::Session& s) { return s.max_tokens(); });
}
uint32_t mkrt_max_requests(const mkrt_session* session) {
  return constant(session, [](const mkrt::Session& s) { return s.limits().max_requests; });
}
uint32_t mkrt_context(const mkrt_session* session) {
  return constant(session, [](const mkrt::Session& s) { return s.context(); });
}
uint32_t mkrt_caches(const mkrt_session* session) {
  return constant(session,
                  [](const mkrt::Session& s) { return static_cast<uint32_t>(s.manifest().caches.size()); });
}

uint32_t mkrt_position(const mkrt_session* session) {
  return present(session, [](const mkrt::Session& s) {
    mkrt::last_error = {};  // 0 is a position
    return s.position();
  });
}
uint32_t mkrt_page_size(const mkrt_session* session) {
  return present(session, [](const mkrt::Session& s) { return s.limits().page_size; });
}
uint32_t mkrt_pages(const mkrt_session* session) {
  return present(session, [](const mkrt::Session& s) { return s.limits().pages; });
}

mkrt_status mkrt_rewind(mkrt_session* session, uint32_t position) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || mkrt::has_engine(claim)) return mkrt::last_status();
    if (position > claim->session.position())
      return refuse("cannot go back to position {}, the session is at {}", position,
                    claim->session.position());
    claim->session.set_position(position);
    return MKRT_OK;
  });
}

mkrt_status mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || mkrt::has_engine(claim)) return mkrt::last_status();
    if (pages == 0 || form < MKRT_NHD || form > MKRT_PACKED)
      return refuse("{} pages of form {}, expected 1 or more of 0 to 2", pages, static_cast<int>(form));
    return keep(claim->session.use_cache({page_size, pages, static_cast<mkrt::CacheForm>(form), {}}));
  });
}

mkrt_status mkrt_use_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, uint64_t page_stride,
                           uint64_t position_stride, uint64_t head_stride, const uint64_t* base,
                           uint32_t caches) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || mkrt::has_engine(claim) || missing(base, "base")) return mkrt::last_status();
    if (const size_t max = claim->session.manifest().caches.size(); caches != max)
      return keep(
          mkrt::Error{fmt::format("cache: error: {} addresses, the model has {} caches", caches, max)});
    mkrt::CacheOptions options;
    options.space = mkrt::CacheSpace{
        page_size, pages, {page_stride, position_stride, head_stride}, {base, base + caches}};
    return keep(claim->session.use_cache(options));
  });
}

mkrt_status mkrt_use_scales(mkrt_session* session, const float* scales, uint32_t count) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || mkrt::has_engine(claim) || missing(scales, "scales")) return mkrt::last_status();
    return keep(claim->session.use_scales({scales, count}));
  });
}
