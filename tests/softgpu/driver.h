// The driver interface has one device with one context, its modules and its streams.
//
// Work in a stream waits until somebody has to have it done. A random stream with work then goes first. The
// default stream is one of them. Its work comes behind what blocking streams were given before it, and before
// what they are given later.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/softgpu/machine.h"

namespace softgpu {

// The values are those of CUresult.
enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kTooManyBlocks = 720,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kDriverMismatch = 803,
  kCaptureUnsupported = 900,
  kUnknown = 999,
};

struct Function {
  const Kernel* kernel = nullptr;
  uint32_t dynamic_shared = 48 << 10;
};

struct LoadedModule {
  Module module;
  std::map<std::string, Function> functions;
};

struct Event {
  uint64_t recorded = 0, done = 0;
  uint64_t time_ns = 0;
};

// Work in a stream or a graph is a launch or a call of `act`. Work begins once `waits_for` is done.
struct Work {
  Launch launch;  // no kernel: the work launches nothing
  std::function<void()> act;
  Event* waits_for = nullptr;
  uint64_t version = 0;
  uint64_t number = 0;  // grows with each work that is put into a stream
};

struct Graph {
  std::vector<Work> works;
};

struct Stream {
  bool blocking = true;
  bool capturing = false;
  std::unique_ptr<Graph> graph;
  std::deque<Work> works;
};

class Driver {
 public:
  Driver();

  int load_module(const void* image, LoadedModule** module);
  uint32_t max_shared() const;  // bytes of a CTA
  uint32_t blocks_per_sm(const Function& f, uint32_t threads, uint32_t shared_bytes) const;

  // Puts work into a stream, or into the graph that the stream captures. nullptr is the default stream.
  // Work is put nowhere where the call returns an error.
  int put(Stream* stream, Work work);
  // Puts work into a stream and waits for it, unless the stream captures. Work is taken back where the call
  // returns an error, because the program may free the work's memory then.
  int put_and_finish(Stream* stream, Work work);
  int finish(Stream* stream);
  int finish_all();
  // Lets some work go on, as time passes while a program asks for an event.
  void go_on();
  int finish_until(const Event& event);
  bool capturing() const;
  bool on_device(uint64_t address, uint64_t bytes);
  bool pinned(const void* memory) const;  // requires `mutex` not to be held
  int result() const;

  Settings settings;
  Machine machine;
  mutable std::mutex mutex;
  std::vector<Stream*> streams;  // in the order of their creation, so that equal runs draw equal ones
  std::map<const void*, size_t> pinned_memory;

 private:
  bool ready(const Stream& s) const;
  bool behind(const Stream& s, const Stream& other) const;
  bool run_one();
  void run(Stream& s);
  void report();  // prints the first error

  Stream default_;
  uint64_t works_ = 0;  // put into streams so far
  std::vector<std::unique_ptr<LoadedModule>> modules_;
  bool reported_ = false;
};

Driver& driver();

}  // namespace softgpu
