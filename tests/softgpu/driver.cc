#include "tests/softgpu/driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/softgpu/cubin.h"
#include "tests/softgpu/defects.h"

namespace softgpu {
namespace {

struct Limits {
  uint32_t shared_bytes, threads;  // limits of one multiprocessor
};

// The limits come from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Limits limits_of(const Settings& s) {
  if (s.major == 8 && s.minor == 0) return {164 << 10, 2048};
  if (s.major == 9 || s.major == 10) return {228 << 10, 2048};
  return {100 << 10, 1536};
}

// Returns whether code for `target` runs on the device. Code with architecture-specific features (`sm_90a`)
// runs on that architecture alone.
bool runs_on(const std::string& target, const Settings& s) {
  if (!target.starts_with("sm_")) return false;
  const uint32_t number = static_cast<uint32_t>(std::strtoul(target.c_str() + 3, nullptr, 10));
  const uint32_t major = number / 10, minor = number % 10;
  return target.ends_with('a') ? major == s.major && minor == s.minor : major == s.major && minor <= s.minor;
}

std::string text_of_file(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Driver::Driver() : settings(settings_of_environment()), machine(settings) {
  streams.push_back(&default_);
}

Driver& driver() {
  static Driver the_driver;
  return the_driver;
}

int Driver::load_module(const void* image, LoadedModule** module) {
  CubinParts parts;
  if (is_elf(image))
    parts = read_cubin(image);
  else
    parts.ptx = static_cast<const char*>(image);
  if (const char* path = std::getenv("SOFTGPU_PTX")) parts.ptx = text_of_file(path);
  if (parts.ptx.empty()) {
    std::fprintf(stderr,
                 "softgpu: error: the cubin has no PTX: expected one that tests/softgpu/ptxas made\n");
    return kInvalidImage;
  }
  auto loaded = std::make_unique<LoadedModule>();
  try {
    loaded->module = parse_ptx(parts.ptx);
  } catch (const PtxError& e) {
    std::fprintf(stderr, "softgpu: error: PTX %s\n", e.what());
    return kInvalidImage;
  }
  break_instructions(loaded->module, settings.defect);
  if (!runs_on(loaded->module.target, settings)) return kNoBinaryForGpu;
  for (auto& [name, kernel] : loaded->module.kernels) {
    if (const auto r = parts.registers.find(name); r != parts.registers.end())
      kernel.registers_per_thread = r->second;
    loaded->functions[name].kernel = &kernel;
  }
  *module = loaded.get();
  modules_.push_back(std::move(loaded));
  return kSuccess;
}

uint32_t Driver::max_shared() const {
  return limits_of(settings).shared_bytes - 1024;
}

uint32_t Driver::blocks_per_sm(const Function& f, uint32_t threads, uint32_t shared_bytes) const {
  const Limits limits = limits_of(settings);
  const uint32_t registers = (std::max(f.kernel->registers_per_thread, 1u) + 7) / 8 * 8;
  const uint32_t warps = (threads + 31) / 32;
  return std::min({limits.shared_bytes / (shared_bytes + 1024), limits.threads / (32 * warps),
                   65536 / (registers * 32 * warps), 32u});
}

bool Driver::on_device(uint64_t address, uint64_t bytes) {
  return machine.memory.find(address, bytes) != nullptr;
}

bool Driver::pinned(const void* memory) const {
  const std::lock_guard lock(mutex);
  auto at = pinned_memory.upper_bound(memory);
  if (at == pinned_memory.begin()) return false;
  --at;
  return static_cast<const char*>(memory) < static_cast<const char*>(at->first) + at->second;
}

bool Driver::capturing() const {
  return std::any_of(streams.begin(), streams.end(), [](const Stream* s) { return s->capturing; });
}

int Driver::result() const {
  if (machine.error.empty()) return kSuccess;
  if (machine.error.find("illegal address") != std::string::npos) return kIllegalAddress;
  if (machine.error.find("misaligned") != std::string::npos) return kMisalignedAddress;
  return kLaunchFailed;
}

int Driver::put(Stream* stream, Work work) {
  if (const int error = result()) return error;
  if (stream && stream->capturing) {
    stream->graph->works.push_back(std::move(work));
    return kSuccess;
  }
  if (!stream && capturing()) return kCaptureUnsupported;
  work.number = ++works_;
  (stream ? *stream : default_).works.push_back(std::move(work));
  return kSuccess;
}

int Driver::put_and_finish(Stream* stream, Work work) {
  if (const int error = put(stream, std::move(work))) return error;
  if (stream && stream->capturing) return kSuccess;
  const uint64_t number = works_;
  const int result = finish(stream);
  if (result != kSuccess)
    std::erase_if((stream ? *stream : default_).works, [=](const Work& w) { return w.number == number; });
  return result;
}

// Tells whether the next work of `s` waits for work that `other` was given before it.
bool Driver::behind(const Stream& s, const Stream& other) const {
  const bool ordered = s.blocking && other.blocking && (&s == &default_ || &other == &default_);
  return &s != &other && ordered && !other.works.empty() &&
         other.works.front().number < s.works.front().number;
}

bool Driver::ready(const Stream& s) const {
  const Work& w = s.works.front();
  if (w.waits_for && w.waits_for->done < w.version) return false;
  return std::none_of(streams.begin(), streams.end(), [&](const Stream* other) { return behind(s, *other); });
}

// Runs work of one stream, chosen at random among those whose work can go on. Returns false where there is
// none.
bool Driver::run_one() {
  std::vector<Stream*> some;
  for (Stream* s : streams)
    if (!s->works.empty() && ready(*s)) some.push_back(s);
  if (some.empty()) return false;
  run(*some[machine.draw(static_cast<uint32_t>(some.size()))]);
  return true;
}

void Driver::run(Stream& s) {
  std::vector<Launch> launches;
  do {
    const Work work = std::move(s.works.front());
    s.works.pop_front();
    if (work.act) {
      work.act();
      return report();
    }
    if (!work.launch.kernel) return;
    launches.push_back(work.launch);
    // Launches that may overlap run together.
  } while (!s.works.empty() && s.works.front().launch.kernel && s.works.front().launch.may_overlap &&
           ready(s));
  launches.front().may_overlap = false;
  machine.run(launches);
  report();
}

void Driver::report() {
  if (machine.error.empty() || reported_) return;
  std::fprintf(stderr, "softgpu: error: %s\n", machine.error.c_str());
  reported_ = true;
}

int Driver::finish(Stream* stream) {
  if (!stream) stream = &default_;
  if (stream->capturing) return kCaptureUnsupported;
  while (!stream->works.empty())
    if (!run_one()) return kNotReady;
  return result();
}

int Driver::finish_until(const Event& event) {
  while (event.done < event.recorded)
    if (!run_one()) return kNotReady;  // the event was recorded into a graph
  return result();
}

void Driver::go_on() {
  if (machine.draw(2) == 0) run_one();
}

int Driver::finish_all() {
  for (Stream* s : streams)
    while (!s->works.empty())
      if (!run_one()) return kNotReady;
  return result();
}

}  // namespace softgpu
