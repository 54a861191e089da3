// These tests check the calls of the CUDA device. A fake driver records them (tests/fixtures/fake_cuda).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <fstream>
#include <functional>

#include "runtime/device/cuda_driver.h"
#include "runtime/session/session.h"
#include "tests/unit/runtime/made_artefact.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

// Returns an artefact of three grids of two kinds. `launches` lists the grids that have a kernel of their
// own.
Artefact artefact(std::vector<uint32_t> launches, uint32_t workers = 2) {
  Manifest m;
  m.abi = kAbiVersion;
  m.target = "sm_90a";
  m.workers = workers;
  m.threads = kWorkerThreads;
  m.shared_bytes = 4096;
  m.grids.resize(3);
  m.grids[0].name = "embed";
  m.grids[1].name = "l0.o";
  m.grids[2].name = "l1.o";
  m.grids[1].kind = m.grids[2].kind = 2;
  m.launches = std::move(launches);
  return mkrt::test::made_artefact(std::move(m), std::vector<std::byte>(16));
}

// Log reads the driver's calls since the last reading. `names` are the beginnings of the calls' names.
struct Log {
  mkrt::test::TempDir dir;
  std::string path = dir.path + "/log";
  Log() { setenv("FAKE_CUDA_LOG", path.c_str(), 1); }
  ~Log() { unsetenv("FAKE_CUDA_LOG"); }

  std::vector<std::string> take(const std::vector<std::string>& names) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
      for (const std::string& name : names)
        if (line.starts_with(name)) lines.push_back(line);
    std::ofstream(path).close();
    return lines;
  }
};

std::unique_ptr<Device> open_device() {
  Result<std::unique_ptr<Device>> device = open_cuda();
  REQUIRE_MESSAGE(device.ok(), device.error().message);
  return std::move(device.value());
}

using Lines = std::vector<std::string>;

TEST_CASE("one kernel is launched cooperatively, with all its workers") {
  Log log;
  const auto device = open_device();
  REQUIRE(device->load(artefact({})).ok());
  CHECK(log.take({"cuModuleGetFunction", "cuFuncSetAttribute"}) ==
        Lines{"cuModuleGetFunction 1 mk_pack", "cuModuleGetFunction 1 mk_kernel",
              "cuFuncSetAttribute mk_kernel 8 4096"});
  REQUIRE(device->launch(0, 64, 128, 1).ok());
  CHECK(log.take({"cuLaunch", "cuGraph"}) ==
        Lines{"cuLaunchCooperativeKernel mk_kernel 2 1 1 384 1 1 4096 0"});
}

TEST_CASE("a kernel for each grid: captured once in their order, each but the first free to overlap") {
  Log log;
  auto device = open_device();
  REQUIRE(device->load(artefact({0, 1, 2})).ok());
  CHECK(log.take({"cuModuleGetFunction", "cuFuncSetAttribute"}) ==
        Lines{"cuModuleGetFunction 1 mk_pack", "cuModuleGetFunction 1 mk_grid_0",
              "cuFuncSetAttribute mk_grid_0 8 4096", "cuModuleGetFunction 1 mk_grid_2",
              "cuFuncSetAttribute mk_grid_2 8 4096"});
  const Lines calls{"cuLaunch", "cuStream", "cuGraph"};
  REQUIRE(device->launch(0, 64, 128, 1).ok());
  CHECK(log.take(calls) == Lines{"cuStreamCreate 1 -> 1", "cuStreamBeginCapture_v2 1 1",
                                 "cuLaunchKernelEx mk_grid_0 2 1 1 384 1 1 4096 1 0",
                                 "cuLaunchKernelEx mk_grid_2 2 1 1 384 1 1 4096 1 1 6=1",
                                 "cuLaunchKernelEx mk_grid_2 2 1 1 384 1 1 4096 1 2 6=1",
                                 "cuStreamEndCapture 1", "cuGraphInstantiateWithFlags 1 0",
                                 "cuGraphDestroy 1", "cuStreamDestroy_v2 1", "cuGraphLaunch 1 0"});
  REQUIRE(device->launch(0, 64, 128, 1).ok());
  CHECK(log.take(calls) == Lines{"cuGraphLaunch 1 0"});
  REQUIRE(device->launch(0, 64, 128, 3).ok());  // three steps launch the graph three times
  CHECK(log.take(calls) == Lines{"cuGraphLaunch 1 0", "cuGraphLaunch 1 0", "cuGraphLaunch 1 0"});
  REQUIRE(device->launch(0, 64, 512, 1).ok());  // a step at another address needs another graph
  CHECK(log.take({"cuStreamBeginCapture", "cuGraphLaunch"}).size() == 2);
  device.reset();
  CHECK(log.take({"cuGraphExecDestroy"}).size() == 2);
}

TEST_CASE("a driver that does not capture launches that overlap captures them without") {
  Log log;
  setenv("FAKE_CUDA_OLD", "1", 1);
  const auto device = open_device();
  REQUIRE(device->load(artefact({0, 1, 2})).ok());
  REQUIRE(device->launch(0, 64, 128, 1).ok());
  Lines calls = log.take({"cuLaunch", "cuGraph"});
  for (std::string& call : calls) call = call.substr(0, call.find(" 2 1 1"));
  CHECK(calls == Lines{"cuLaunchKernelEx mk_grid_0", "cuLaunchKernelEx mk_grid_2",
                       "cuLaunchKernelEx mk_grid_2", "cuGraphInstantiateWithFlags 1 0", "cuGraphDestroy 1",
                       "cuGraphLaunch 1 0"});
  unsetenv("FAKE_CUDA_OLD");
}

TEST_CASE("every call sets the device's context first, as its thread may have another") {
  Log log;
  const auto device = open_device();
  REQUIRE(device->load(artefact({})).ok());
  const uint64_t memory = device->allocate(64).value(), mark = device->make_mark().value();
  std::byte* const host = device->allocate_host(64).value();
  const std::span<std::byte> bytes(host, 64);
  const std::vector<std::function<bool()>> calls{
      [&] { return device->allocate(8).ok(); },
      [&] { return device->write(memory, bytes).ok(); },
      [&] { return device->read(bytes, memory).ok(); },
      [&] { return device->clear(memory, 64).ok(); },
      [&] { return device->pack(memory).ok(); },
      [&] { return device->enqueue_write(0, memory, bytes).ok(); },
      [&] { return device->enqueue_read(0, bytes, memory).ok(); },
      [&] { return device->launch(0, memory, memory, 1).ok(); },
      [&] { return device->allocate_host(8).ok(); },
      [&] { return device->make_mark().ok(); },
      [&] { return device->enqueue_mark(0, mark).ok(); },
      [&] { return device->wait_for_mark(mark).ok(); },
      [&] { return device->wait_for_stream(0).ok(); },
      [&] { return !device->capturing(0); },
      [&] { return device->release_mark(mark), true; },
      [&] { return device->release_host(host), true; },
      [&] { return device->release(memory), true; },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    log.take({});
    CHECK(calls[i]());
    const Lines lines = log.take({""});
    REQUIRE(!lines.empty());
    CHECK(lines[0] == "cuCtxSetCurrent 1");
  }
}

TEST_CASE("a GPU refuses artefacts for other devices, and takes its own after that") {
  const auto device = open_device();
  const auto refused = [&](const Artefact& a) { return device->load(a).error().message; };
  Artefact other = artefact({});
  other.manifest.target = "x86-64-v3";
  CHECK(refused(other) == "rehearsal: error: the artefact is for x86-64-v3, the device runs sm_90");
  other.manifest.target = "emulator";
  other.image.clear();
  CHECK(refused(other) == "rehearsal: error: the artefact holds no cubin: it was compiled for emulator");
  CHECK(device->load(artefact({})).ok());
  CHECK(refused(artefact({0, 1, 2})).ends_with(": open another device for it"));
  Log log;
  device->unload();
  CHECK(!device->loaded());
  CHECK(device->load(artefact({0, 1, 2})).ok());
  const Lines lines = log.take({"cuModuleUnload", "cuModuleLoad"});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "cuModuleUnload 1");
}

TEST_CASE("where not all workers are resident at once, one kernel is refused and kernels are not") {
  Log log;
  setenv("FAKE_CUDA_BLOCKS", "2", 1);
  CHECK(open_device()->load(artefact({}, 9)).error().message ==
        "rehearsal: error: 9 workers, but 4 multiprocessors hold 2 each; compile with --workers 8, or with "
        "--mode=kernels, whose workers need not run at once");
  CHECK(open_device()->load(artefact({0, 1, 2}, 9)).ok());
  unsetenv("FAKE_CUDA_BLOCKS");
}

TEST_CASE("a module whose kernel is refused is unloaded, and the next load has its own") {
  Log log;
  setenv("FAKE_CUDA_BLOCKS", "2", 1);
  auto device = open_device();
  CHECK(!device->load(artefact({}, 9)).ok());
  CHECK(log.take({"cuModuleUnload"}).size() == 1);
  CHECK(device->load(artefact({}, 8)).ok());
  device.reset();
  CHECK(log.take({"cuModuleLoad", "cuModuleUnload"}) == Lines{"cuModuleLoadData ", "cuModuleUnload 1"});
  unsetenv("FAKE_CUDA_BLOCKS");
}

TEST_CASE("a kernel that no multiprocessor holds is refused by its registers and shared memory") {
  setenv("FAKE_CUDA_BLOCKS", "0", 1);
  CHECK(open_device()->load(artefact({})).error().message ==
        "rehearsal: error: the kernel does not fit a multiprocessor: 384 threads of 64 registers, and 4096 "
        "bytes of shared memory; expected a cubin compiled for this device, and no tool that adds registers "
        "to it");
  unsetenv("FAKE_CUDA_BLOCKS");
}

// Returns an artefact with what a session needs. A step takes one token of one request.
Artefact model(std::vector<uint32_t> launches) {
  Manifest m = artefact(std::move(launches)).manifest;
  m.workspace_bytes = 1024;
  m.vocab = 10;
  m.symbols = {
      {"B", 1, 1}, {"T", 1, 1}, {"q_len", 1, 1, true}, {"kv_len", 1, 64, true}, {"first_row", 0, 0, true}};
  m.caches = {{"k", Element::kF32, 1, 4}, {"v", Element::kF32, 1, 4}};
  m.inputs = {{"tokens", Arena::kInput, Element::kI32, 0, 0, {1}},
              {"positions", Arena::kInput, Element::kI32, 0, 0, {1}}};
  m.outputs = {{"logits", Arena::kWorkspace, Element::kF32, 0, 40, {1, 10}},
               {"next", Arena::kWorkspace, Element::kI32, 64, 4, {1}}};
  return mkrt::test::made_artefact(std::move(m), std::vector<std::byte>(16));
}

constexpr uint64_t kStream = 0x1000;  // the fake driver did not make this stream and logs it as -1

// Capture captures the stream for as long as it lives.
struct Capture {
  const Driver* driver = load_driver().value();
  Handle graph = nullptr;
  Capture() { driver->capture_begin(reinterpret_cast<Handle>(kStream), kCaptureOfThread); }
  ~Capture() { driver->capture_end(reinterpret_cast<Handle>(kStream), &graph); }
};

// Streamed is a session on kStream.
struct Streamed {
  std::unique_ptr<Device> device = open_device();
  Session session;
  const int32_t token = 3, kv_len = 1, begin[2] = {0, 1}, page = 0;
  const Batch batch{{&token, 1}, begin, {&kv_len, 1}, {begin, {&page, 1}}};

  explicit Streamed(std::vector<uint32_t> launches) : session(open(*device, std::move(launches))) {}
  static Session open(Device& device, std::vector<uint32_t> launches) {
    SessionOptions options;
    options.stream = kStream;
    const auto no_weights = [](const ManifestWeight&, std::span<std::byte>) { return Status(); };
    Result<Session> session = Session::open(model(std::move(launches)), no_weights, device, options);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(session.value());
  }
};

const Lines kCalls{"cuMem", "cuLaunch", "cuStreamS", "cuStreamC", "cuCtxSynchronize", "cuGraph", "cuEvent"};

TEST_CASE("a step that is begun puts its work on the session's stream, and neither allocates nor waits") {
  Log log;
  Streamed s({});
  // The session waits for its own writes when it opens, so that any stream may read them.
  CHECK(log.take({"cuEventCreate", "cuStreamS"}) ==
        Lines{"cuEventCreate 2", "cuEventCreate 2", "cuEventCreate 2", "cuStreamSynchronize 0"});
  const auto step = [](int event) {
    return Lines{"cuMemcpyHtoDAsync_v2 -1", "cuLaunchCooperativeKernel mk_kernel 2 1 1 384 1 1 4096 -1",
                 "cuMemcpyDtoHAsync_v2 -1", fmt::format("cuEventRecord {} -1", event)};
  };
  REQUIRE(s.session.begin_step(s.batch).ok());
  const Lines calls = log.take(kCalls);
  const int event = calls.back()[14] - '0';
  CHECK(calls == step(event));
  REQUIRE(s.session.begin_step(s.batch).ok());
  CHECK(log.take(kCalls) == step(event + 1));
  StepResult result;
  REQUIRE(s.session.end_step(result).ok());  // the end waits for the oldest step
  CHECK(log.take(kCalls) == Lines{fmt::format("cuEventSynchronize {}", event)});
  REQUIRE(s.session.end_step(result).ok());
  CHECK(log.take(kCalls) == Lines{fmt::format("cuEventSynchronize {}", event + 1)});
}

TEST_CASE("samples of the step before are copied on the stream, neighbours together") {
  Log log;
  Streamed s({});
  REQUIRE(s.session.begin_step(s.batch).ok());
  log.take({});
  const int32_t sample = last_sample(0), length = 2;
  REQUIRE(s.session.begin_step({{&sample, 1}, s.begin, {&length, 1}, {s.begin, {&s.page, 1}}}).ok());
  CHECK(log.take({"cuMemcpy", "cuLaunch"}) ==
        Lines{"cuMemcpyHtoDAsync_v2 -1", "cuMemcpyDtoDAsync_v2 4 -1",
              "cuLaunchCooperativeKernel mk_kernel 2 1 1 384 1 1 4096 -1", "cuMemcpyDtoHAsync_v2 -1"});
}

TEST_CASE("what has no room beside the fault is copied apart") {
  Log log;
  Streamed s({});
  log.take({});
  Samples samples;
  samples.limit = 1000;
  Batch batch = s.batch;
  batch.samples = {&samples, 1};
  REQUIRE(s.session.begin_step(batch).ok());
  CHECK(log.take({"cuMemcpyDtoHAsync"}) == Lines{"cuMemcpyDtoHAsync_v2 -1", "cuMemcpyDtoHAsync_v2 -1"});
  StepResult result;
  REQUIRE(s.session.end_step(result).ok());
}

TEST_CASE("a captured step records no event; its end waits for the stream") {
  Log log;
  Streamed s({});
  log.take({});
  {
    const Capture capture;
    CHECK(s.session.begin_step(s.batch).error().message ==
          "step: error: the stream is being captured: a step is put there by capture_step");
    REQUIRE(s.session.capture_step().ok());
  }
  CHECK(log.take(kCalls) == Lines{"cuMemcpyHtoDAsync_v2 -1",
                                  "cuLaunchCooperativeKernel mk_kernel 2 1 1 384 1 1 4096 -1",
                                  "cuMemcpyDtoHAsync_v2 -1"});
  REQUIRE(s.session.fill_step(s.batch).ok());
  CHECK(log.take(kCalls).empty());
  StepResult result;
  REQUIRE(s.session.end_step(result).ok());
  CHECK(log.take(kCalls) == Lines{"cuStreamSynchronize -1"});
}

TEST_CASE("into a caller's graph kernels of grids go by themselves, as graphs cannot be launched there") {
  Log log;
  Streamed s({0, 1, 2});
  log.take({});
  {
    const Capture capture;
    REQUIRE(s.session.capture_step().ok());
  }
  CHECK(log.take({"cuLaunch", "cuGraph"}) == Lines{"cuLaunchKernelEx mk_grid_0 2 1 1 384 1 1 4096 -1 0",
                                                   "cuLaunchKernelEx mk_grid_2 2 1 1 384 1 1 4096 -1 1 6=1",
                                                   "cuLaunchKernelEx mk_grid_2 2 1 1 384 1 1 4096 -1 2 6=1"});
  REQUIRE(s.session.begin_step(s.batch).ok());
  CHECK(log.take({"cuGraphLaunch"}) == Lines{"cuGraphLaunch 1 -1"});
}

TEST_CASE(
    "into a caller's graph nothing overlaps where the driver does not capture it, from the first capture "
    "on") {
  Log log;
  setenv("FAKE_CUDA_OLD", "1", 1);
  Streamed s({0, 1, 2});
  log.take({});
  {
    const Capture capture;
    CHECK(s.session.capture_step().ok());
  }
  CHECK(log.take({"cuLaunch"}).size() == 3);
  unsetenv("FAKE_CUDA_OLD");
}

TEST_CASE("two sessions of a device have two streams") {
  Log log;
  Streamed s({});
  SessionOptions other;
  Result<Session> second = Session::open(
      model({}), [](const ManifestWeight&, std::span<std::byte>) { return Status(); }, *s.device, other);
  REQUIRE(second.ok());
  log.take({});
  REQUIRE(s.session.begin_step(s.batch).ok());
  REQUIRE(second.value().begin_step(s.batch).ok());
  const Lines launches = log.take({"cuLaunch"});
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].ends_with(" -1"));
  CHECK(launches[1].ends_with(" 0"));
}

}  // namespace
}  // namespace mkrt
