// The calls that the CUDA device makes, by a driver that records them (tests/fixtures/fake_cuda).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>

#include "runtime/device.h"
#include "runtime/plan.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

// Three grids of two kinds; `launches`: of a kernel each.
Artefact artefact(std::vector<uint32_t> launches, uint32_t workers = 2) {
  Artefact a;
  Manifest& m = a.manifest;
  m.target = "sm_90a";
  m.workers = workers;
  m.threads = kWorkerThreads;
  m.shared_bytes = 4096;
  m.grids = {"embed", "l0.o", "l1.o"};
  m.launches = std::move(launches);
  const MkPlanHeader header{kPlanMagic, 3, workers, 0};
  const PlanLayout layout = plan_layout(header);
  a.plan.resize(layout.bytes);
  std::memcpy(a.plan.data(), &header, sizeof(header));
  for (uint32_t grid = 0; grid < 3; ++grid) {
    MkGrid record{};
    record.kind = grid == 0 ? 5 : 7;
    record.id = grid;
    std::memcpy(a.plan.data() + layout.grids + grid * sizeof(MkGrid), &record, sizeof(record));
  }
  a.image.resize(16);
  return a;
}

// What the driver was asked since the last time, by the calls whose names begin like one of `names`.
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
        Lines{"cuModuleGetFunction 1 mk_kernel", "cuFuncSetAttribute mk_kernel 8 4096"});
  REQUIRE(device->launch(64, 128, 1).ok());
  CHECK(log.take({"cuLaunch", "cuGraph", "cuCtxSync"}) ==
        Lines{"cuLaunchCooperativeKernel mk_kernel 2 1 1 288 1 1 4096 0", "cuCtxSynchronize"});
}

TEST_CASE("a kernel for each grid: captured once in their order, each but the first free to overlap") {
  Log log;
  auto device = open_device();
  REQUIRE(device->load(artefact({0, 1, 2})).ok());
  CHECK(log.take({"cuModuleGetFunction", "cuFuncSetAttribute"}) ==
        Lines{"cuModuleGetFunction 1 mk_grid_5", "cuFuncSetAttribute mk_grid_5 8 4096",
              "cuModuleGetFunction 1 mk_grid_7", "cuFuncSetAttribute mk_grid_7 8 4096"});
  const Lines calls{"cuLaunch", "cuStream", "cuGraph", "cuCtxSync"};
  REQUIRE(device->launch(64, 128, 1).ok());
  CHECK(log.take(calls) == Lines{"cuStreamCreate 1 -> 1", "cuStreamBeginCapture_v2 1 1",
                                 "cuLaunchKernelEx mk_grid_5 2 1 1 288 1 1 4096 1 0",
                                 "cuLaunchKernelEx mk_grid_7 2 1 1 288 1 1 4096 1 1 6=1",
                                 "cuLaunchKernelEx mk_grid_7 2 1 1 288 1 1 4096 1 2 6=1",
                                 "cuStreamEndCapture 1", "cuGraphInstantiateWithFlags 1 0",
                                 "cuGraphDestroy 1", "cuStreamDestroy_v2 1", "cuGraphLaunch 1 0",
                                 "cuCtxSynchronize"});
  REQUIRE(device->launch(64, 128, 1).ok());
  CHECK(log.take(calls) == Lines{"cuGraphLaunch 1 0", "cuCtxSynchronize"});
  REQUIRE(device->launch(64, 128, 3).ok());  // a step after the other
  CHECK(log.take(calls) ==
        Lines{"cuGraphLaunch 1 0", "cuGraphLaunch 1 0", "cuGraphLaunch 1 0", "cuCtxSynchronize"});
  REQUIRE(device->launch(64, 512, 1).ok());  // another step's place is another graph
  CHECK(log.take({"cuStreamBeginCapture", "cuGraphLaunch"}).size() == 2);
  device.reset();
  CHECK(log.take({"cuGraphExecDestroy"}).size() == 2);
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

}  // namespace
}  // namespace mkrt
