// The CUDA Driver API has launches, streams, events and graphs.
#include <algorithm>
#include <cstring>

#include "tests/softgpu/api.h"

using namespace softgpu;

namespace {

using Lock = std::lock_guard<std::mutex>;

struct LaunchAttribute {  // CUlaunchAttribute
  int id, pad;
  int value[16];
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int kIgnore = 0, kCooperative = 2, kMayOverlap = 6;  // CUlaunchAttributeID

int launch(void* function, const LaunchConfig& c, void** arguments, bool cooperative, bool overlap) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  const auto* f = static_cast<const Function*>(function);
  if (c.grid_x == 0 || c.block_x == 0 || c.grid_y != 1 || c.grid_z != 1 || c.block_y != 1 || c.block_z != 1)
    return kInvalidValue;
  if (c.shared_bytes > f->dynamic_shared) return kInvalidValue;
  if (c.block_x > 1024 || (f->kernel->max_threads && c.block_x > f->kernel->max_threads))
    return kInvalidValue;
  const uint32_t resident = driver().blocks_per_sm(*f, c.block_x, c.shared_bytes) * driver().settings.sms;
  if (resident == 0) return kOutOfResources;
  if (cooperative && c.grid_x > resident) return kTooManyBlocks;
  Work work;
  Launch& l = work.launch;
  l.kernel = f->kernel;
  l.blocks = c.grid_x, l.threads = c.block_x, l.shared_bytes = c.shared_bytes;
  l.resident = resident;
  l.may_overlap = overlap && driver().settings.major >= 9;
  l.parameters.resize(f->kernel->parameter_bytes);
  for (size_t p = 0; p < f->kernel->parameters.size(); ++p)
    std::memcpy(l.parameters.data() + f->kernel->parameters[p].offset, arguments[p],
                f->kernel->parameters[p].bytes);
  return driver().put(static_cast<Stream*>(c.stream), std::move(work));
}

}  // namespace

SOFTGPU_API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared, void* stream, void** arguments, void**) {
  return launch(function, {gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, arguments, false, false);
}
SOFTGPU_API cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                      unsigned by, unsigned bz, unsigned shared, void* stream,
                                      void** arguments) {
  return launch(function, {gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, arguments, true, false);
}
SOFTGPU_API cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments, void**) {
  bool cooperative = false, overlap = false;
  for (unsigned n = 0; n < config->attribute_count; ++n) {
    const LaunchAttribute& a = config->attributes[n];
    if (a.id == kCooperative)
      cooperative = a.value[0] != 0;
    else if (a.id == kMayOverlap)
      overlap = a.value[0] != 0;
    else if (a.id != kIgnore)
      return kInvalidValue;
  }
  return launch(function, *config, arguments, cooperative, overlap);
}

SOFTGPU_API cuStreamCreate(void** stream, unsigned flags) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* s = new Stream;
  s->blocking = (flags & 1) == 0;
  driver().streams.push_back(s);
  return *stream = s, kSuccess;
}
SOFTGPU_API cuStreamDestroy_v2(void* stream) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* s = static_cast<Stream*>(stream);
  if (std::ranges::find(driver().streams, s) == driver().streams.end()) return kInvalidHandle;
  driver().finish(s);
  std::erase(driver().streams, s);
  return delete s, kSuccess;
}
SOFTGPU_API cuStreamSynchronize(void* stream) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  return driver().finish(static_cast<Stream*>(stream));
}
SOFTGPU_API cuStreamIsCapturing(void* stream, int* status) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  return *status = stream && static_cast<Stream*>(stream)->capturing, kSuccess;
}
SOFTGPU_API cuStreamBeginCapture_v2(void* stream, int) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* s = static_cast<Stream*>(stream);
  if (!s || s->capturing) return kInvalidValue;
  s->capturing = true;
  s->graph = std::make_unique<Graph>();
  return kSuccess;
}
SOFTGPU_API cuStreamEndCapture(void* stream, void** graph) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* s = static_cast<Stream*>(stream);
  if (!s || !s->capturing) return kInvalidValue;
  s->capturing = false;
  return *graph = s->graph.release(), kSuccess;
}

SOFTGPU_API cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const int error = unusable()) return error;
  return *executable = new Graph(*static_cast<Graph*>(graph)), kSuccess;
}
SOFTGPU_API cuGraphDestroy(void* graph) {
  if (const int error = unusable()) return error;
  return delete static_cast<Graph*>(graph), kSuccess;
}
SOFTGPU_API cuGraphLaunch(void* executable, void* stream) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* s = static_cast<Stream*>(stream);
  if (s && s->capturing) return kCaptureUnsupported;
  for (const Work& work : static_cast<Graph*>(executable)->works)
    if (const int error = driver().put(s, work)) return error;
  return driver().result();
}
SOFTGPU_API cuGraphExecDestroy(void* executable) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  driver().finish_all();
  return delete static_cast<Graph*>(executable), kSuccess;
}

SOFTGPU_API cuEventCreate(void** event, unsigned) {
  if (const int error = unusable()) return error;
  return *event = new Event, kSuccess;
}
SOFTGPU_API cuEventDestroy_v2(void* event) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  driver().finish_all();
  return delete static_cast<Event*>(event), kSuccess;
}
SOFTGPU_API cuEventRecord(void* event, void* stream) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  auto* e = static_cast<Event*>(event);
  const uint64_t version = e->recorded + 1;
  Work work;
  work.act = [e, version] {
    if (version <= e->done) return;  // a later record in another stream is done already
    e->done = version;
    e->time_ns = driver().machine.time_ns();
  };
  if (const int error = driver().put(static_cast<Stream*>(stream), std::move(work))) return error;
  return e->recorded = version, kSuccess;
}
SOFTGPU_API cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  Work work;
  work.waits_for = static_cast<Event*>(event);
  work.version = work.waits_for->recorded;
  return driver().put(static_cast<Stream*>(stream), std::move(work));
}
SOFTGPU_API cuEventQuery(void* event) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  const auto* e = static_cast<const Event*>(event);
  if (e->done != e->recorded) driver().go_on();
  return e->done == e->recorded ? driver().result() : kNotReady;
}
SOFTGPU_API cuEventSynchronize(void* event) {
  if (const int error = unusable()) return error;
  Lock lock(driver().mutex);
  const auto* e = static_cast<const Event*>(event);
  return driver().finish_until(*e);
}
SOFTGPU_API cuEventElapsedTime(float* ms, void* begin, void* end) {
  if (const int error = unusable()) return error;
  const auto *a = static_cast<const Event*>(begin), *b = static_cast<const Event*>(end);
  *ms = static_cast<float>(b->time_ns - a->time_ns) / 1e6f;
  return kSuccess;
}
