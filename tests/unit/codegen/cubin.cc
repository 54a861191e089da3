#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <optional>
#include <set>
#include <sstream>

#include "codegen/assembler.h"
#include "codegen/describe.h"
#include "codegen/lint_ptx.h"
#include "codegen/nvptx.h"
#include "codegen/plan.h"
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/seal.h"
#include "runtime/base/file.h"
#include "tests/unit/codegen/fixtures.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using Dir = mkrt::test::TempDir;

std::string ptx_for(const Schedule& schedule, const std::string& target) {
  const mkrt::Manifest manifest = describe(schedule, {"0", "family", "c0", "5c", target, {}, -1});
  const std::vector<std::byte> plan = make_plan(schedule, find_kinds(schedule));
  return add_manifest(make_ptx(schedule, Mode::kMegakernel, plan, find_target(target).value()), manifest);
}

std::unique_ptr<Assembler> any_assembler() {
  Result<std::unique_ptr<Assembler>> found = find_assembler("");
  if (found.ok()) return std::move(found.value());
  MESSAGE("skipped: " << found.error().message);
  return nullptr;
}

// Returns the resources of all kernels but mk_pack. Each cubin has mk_pack, which packs weights.
std::vector<Resources> kernels_of_steps(const Cubin& cubin) {
  std::vector<Resources> kernels = read_resources(cubin.log);
  CHECK(std::erase_if(kernels, [](const Resources& r) { return r.kernel == "mk_pack"; }) == 1);
  return kernels;
}

TEST_CASE("a target that is not known is named with its nearest") {
  CHECK(find_target("sm_90b").error().message ==
        "unknown target \"sm_90b\", did you mean sm_90a?; known: sm_80, sm_86, sm_89, sm_90a, sm_100a, "
        "sm_120, sm_121, x86-64-v3, x86-64-avx512, x86-64-v4, x86-64-amx");
}

TEST_CASE("a kernel that is not traced has nothing of stamps") {
  const Schedule schedule = test::scheduled(test::llama_config(), "h100");
  const std::string tracks = fmt::format("ptr addrspace(1) %0, i64 {}", offsetof(mkrt::MkSession, trace));
  for (const char* name : {"sm_80", "sm_90a"}) {
    const Target target = find_target(name).value();
    for (const Mode mode : {Mode::kMegakernel, Mode::kTraced, Mode::kKernels})
      CHECK((make_llvm_ir(schedule, mode, target).find(tracks) != std::string::npos) ==
            (mode == Mode::kTraced));
  }
}

TEST_CASE("the lint refuses each thing that PTX may not contain") {
  const auto fault = [](const char* line) {
    const std::vector<std::string> faults = lint_ptx(std::string("// a comment: call\n\t") + line + "\n");
    return faults.empty() ? "" : faults[0];
  };
  CHECK(fault("red.global.add.u32 [%rd1], 1;") ==
        "line 2: red.global.add.u32 [%rd1], 1;: atomic without an order and a scope");
  CHECK(fault("atom.acq_rel.global.add.u32 %r1, [%rd1], 1;") != "");
  CHECK(fault("@%p1 red.relaxed.gpu.global.add.f32 [%rd1], %f1;") != "");
  CHECK(fault("st.local.b32 [%rd1], %r1;").ends_with("local memory"));
  CHECK(fault(".local .align 8 .b8 __local_depot0[16];").ends_with("local memory"));
  CHECK(fault("ld.global.nc.b32 %r1, [%rd1];") != "");
  CHECK(fault("{ call.uni (r), f, (a); }").ends_with("call"));
  CHECK(fault("ld.volatile.global.b32 %r1, [%rd1];") != "");
  CHECK(fault("membar.gl;") != "");
  CHECK(fault("{ .reg .pred p; st.local.b32 [%rd1], %r1; }").ends_with("local memory"));
  CHECK(fault("{ .reg .b32 t; red.global.add.u32 [%rd1], t; }") != "");
  CHECK(fault(".visible .func (.param .b32 r) f();").ends_with("call"));
  CHECK(fault(".visible .local .b8 x[4];").ends_with("local memory"));
  CHECK(fault("red.relaxed.gpu.global.add.noftz.bf16x2 [%rd1], %r1;") != "");
  CHECK(fault("red.release.gpu.global.add.u32 [%rd1], 1;") == "");
  CHECK(fault("atom.relaxed.gpu.global.cas.b32 %r1, [%rd1], 0, 1;") == "");
  CHECK(fault("ld.global.b32 %r1, [%rd1];") == "");
  CHECK(fault("ld.acquire.gpu.global.b32 %r1, [%rd1];") == "");
}

// gpu_kit_test assembles each family for sm_90a, and spills_test published shapes for each kind of target.
TEST_CASE("each family assembles, and for each target, without spills") {
  const std::unique_ptr<Assembler> assembler = any_assembler();
  if (!assembler) return;
  const auto check = [&](const std::string& small, const char* target, const char* machine,
                         const std::vector<SplitRule>& splits = {}, const ModelOptions& options = {}) {
    CAPTURE(target);
    const std::string config = test::edited(small, "\"hidden_size\": 32", "\"hidden_size\": 1024");
    const std::string ptx = ptx_for(test::scheduled(config, machine, splits, options), target);
    const Result<Cubin> cubin = assembler->assemble(ptx, find_target(target).value());
    REQUIRE_MESSAGE(cubin.ok(), cubin.error().message);
    const std::vector<Resources> kernels = kernels_of_steps(cubin.value());
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].registers > 32);
    CHECK(kernels[0].registers <= 168);  // a worker's 384 threads share 65536 registers
    const bool relocatable = assembler->name().starts_with("nvJitLink");
    // nvJitLink assembles relocatable code, which spills on targets before sm_90: see search_assemblers().
    if (relocatable && !find_target(target).value().engines.bulk_copy) return;
    CHECK(kernels[0].stack_bytes == 0);
    CHECK(kernels[0].spill_store_bytes == 0);
    CHECK(kernels[0].spill_load_bytes == 0);
  };
  check(test::llama_config(), "sm_86", "a10");
  check(test::qwen2_config(), "sm_89", "rtx4090");
  check(test::qwen3_config(), "sm_90a", "h200");
  check(test::llama_config(), "sm_100a", "b200");
  check(test::mistral_config(), "sm_120", "rtx5090");
  check(test::qwen3_config(), "sm_121", "gb10");
  // The kernels below have split products. The last one also has steps of up to 256 tokens, of which sm_90a
  // multiplies 65 or more with wgmma.
  const std::vector<SplitRule> parts{{"l*.down", 4, {}}};
  check(test::llama_config(), "sm_80", "a100", parts);
  ModelOptions many;
  many.max_tokens = 256;
  check(test::llama_config(), "sm_90a", "h100", parts, many);
}

// PTX has no undef value. A value that is undefined on one path occupies a register from the kernel's start
// on.
TEST_CASE("no value of a kernel is undefined on a path") {
  const auto check = [](const std::string& config, const char* target, const char* machine) {
    CAPTURE(target);
    std::istringstream ir(
        make_llvm_ir(test::scheduled(config, machine), Mode::kMegakernel, find_target(target).value()));
    for (std::string line; std::getline(ir, line);) {
      const bool undefined = line.find("[ undef,") != line.npos || line.find("[ poison,") != line.npos;
      CHECK_MESSAGE((line.find(" = phi ") == line.npos || !undefined), line);
    }
  };
  check(test::llama_config(), "sm_80", "a100");
  check(test::qwen2_config(), "sm_90a", "h100");
  check(test::qwen3_moe_config(), "sm_90a", "h100");
}

// Returns the lines of a program's standard output, or no lines if the program cannot run.
std::vector<std::string> output_of(const std::string& command) {
  std::vector<std::string> lines;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe);
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, pipe) > 0) lines.emplace_back(line);
  free(line);
  pclose(pipe);
  return lines;
}

TEST_CASE(
    "machine code: wide shared loads, matrix products and bulk copies, no local memory, ordered atomics") {
  const std::unique_ptr<Assembler> assembler = any_assembler();
  if (!assembler) return;
  const std::string config =
      test::edited(test::llama_config(), "\"hidden_size\": 32", "\"hidden_size\": 1024");
  const Result<Cubin> cubin =
      assembler->assemble(ptx_for(test::scheduled(config, "h100"), "sm_90a"), find_target("sm_90a").value());
  REQUIRE(cubin.ok());
  const Dir dir;
  const std::string path = dir.path + "/f.cubin";
  REQUIRE(mkrt::write_file(path, cubin.value().bytes).ok());
  std::vector<std::string> sass;
  for (const char* program : {MKC_BINARY_DIR "/assembler/bin/nvdisasm", "nvdisasm"})
    if (sass.empty()) sass = output_of(std::string(program) + " -c " + path);
  if (sass.empty()) {
    MESSAGE("skipped: no nvdisasm");
    return;
  }
  size_t wide = 0, products = 0, copies = 0, atomics = 0;
  for (const std::string& line : sass) {
    CAPTURE(line);
    const auto has = [&](const char* text) { return line.find(text) != line.npos; };
    wide += has(" LDS.128 ");
    products += has(" HMMA.16816.F32.BF16 ");
    copies += has(" UBLKCP");
    CHECK_FALSE(has(" LDL"));
    CHECK_FALSE(has(" STL"));
    CHECK_FALSE((has(" LDG") && has(".CONSTANT")));
    if (!has(" ATOM") && !has(" RED")) continue;
    ++atomics;
    CHECK(has(".STRONG.GPU"));
  }
  CHECK(sass.size() > 1000);
  CHECK(wide > 0);
  CHECK(products > 0);
  CHECK(copies > 0);
  CHECK(atomics > 0);
}

TEST_CASE("a cubin describes itself") {
  const std::unique_ptr<Assembler> assembler = any_assembler();
  if (!assembler) return;
  const Schedule schedule = test::scheduled(test::llama_config(), "h100");
  mkrt::Manifest manifest = describe(schedule, {"0", "llama", "c0", "5c", "sm_90a", {5}, 1});
  const std::vector<std::byte> plan = make_plan(schedule, find_kinds(schedule));
  const Target target = find_target("sm_90a").value();
  const Result<Cubin> cubin = assembler->assemble(
      add_manifest(make_ptx(schedule, Mode::kMegakernel, plan, target), manifest), target);
  REQUIRE_MESSAGE(cubin.ok(), cubin.error().message);
  const Dir dir;
  const std::string path = dir.path + "/f.cubin";
  REQUIRE(mkrt::write_file(path, cubin.value().bytes).ok());
  CHECK(dir.without_path(mkrt::load_artefact(path).error().message) ==
        "f.cubin: error: seal: error: the artefact is not sealed");
  CHECK(mkrt::load_artefact(path, mkrt::SealCheck::kSkipped).ok());

  manifest.certificate = {"0", mkrt::kProved, {}, "", "", ""};
  for (const mkrt::ManifestSymbol& s : manifest.symbols)
    manifest.certificate.symbols.push_back({s.name, s.lo, s.hi});
  const mkrt::Result<std::vector<std::byte>> sealed = mkrt::seal_cubin(cubin.value().bytes, manifest);
  REQUIRE_MESSAGE(sealed.ok(), sealed.error().message);
  REQUIRE(mkrt::write_file(path, sealed.value()).ok());
  const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(path);
  REQUIRE_MESSAGE(artefact.ok(), artefact.error().message);
  CHECK(artefact.value().manifest.certificate == manifest.certificate);
  CHECK(artefact.value().manifest.grids == manifest.grids);
  CHECK(artefact.value().plan == plan);
  // The reader refuses an artefact that is cut short, and one with a changed byte. The loop tries every 997th
  // byte.
  for (size_t at = 0; at < sealed.value().size(); at += 997) {
    const auto bytes = std::span(sealed.value());
    CHECK(!mkrt::read_artefact(bytes.first(at), "cut").ok());
    std::vector<std::byte> changed = sealed.value();
    changed[at] ^= std::byte{1};
    CHECK(!mkrt::read_artefact(changed, "changed").ok());
  }
}

TEST_CASE("in kernels mode each kind is a kernel, which overlaps with the one before where the target can") {
  const std::unique_ptr<Assembler> assembler = any_assembler();
  const auto count = [](const std::string& text, const char* what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  for (const auto& [target, machine] : {std::pair("sm_90a", "h100"), std::pair("sm_80", "a100")}) {
    CAPTURE(target);
    const Schedule schedule = test::scheduled(test::qwen3_config(), machine);
    const mkrt::Manifest manifest =
        describe(schedule, {"0", "family", "c0", "5c", target, {}, -1, Mode::kKernels});
    std::set<uint32_t> kinds, placed;
    for (const uint32_t grid : manifest.launches)
      kinds.insert(find_kinds(schedule, Mode::kKernels).of_grid[grid]);
    for (const GridId id : schedule.program.grids.ids())
      if (schedule.placements[id.index].kind != PlacementKind::kInline) placed.insert(id.index);
    CHECK(std::vector<uint32_t>(placed.begin(), placed.end()) == manifest.launches);
    const std::vector<std::byte> plan =
        make_plan(schedule, find_kinds(schedule, Mode::kKernels), Mode::kKernels);
    const std::string ptx =
        add_manifest(make_ptx(schedule, Mode::kKernels, plan, find_target(target).value()), manifest);
    CHECK(count(ptx, ".entry mk_grid_") == kinds.size());
    // The head is the only product with a kernel of its own, as its rows are the requests' last.
    const std::vector<uint32_t> of_grid = find_kinds(schedule, Mode::kKernels).of_grid;
    std::set<uint32_t> products;
    for (const GridId id : schedule.program.grids.ids())
      if (multiplies_in_blocks(schedule.program.grids[id])) products.insert(of_grid[id.index]);
    CHECK(products.size() == 2);
    CHECK(count(ptx, ".entry mk_kernel") == 0);
    const bool overlaps = std::string(target) == "sm_90a";
    CHECK(count(ptx, "griddepcontrol.launch_dependents;") == (overlaps ? kinds.size() : 0));
    // The attention kernel has a second wait, because its loader waits, too.
    CHECK(count(ptx, "griddepcontrol.wait;") == (overlaps ? kinds.size() + 1 : 0));
    CHECK(count(ptx, "red.release") == 0);  // no event is notified
    if (!assembler) continue;
    const Result<Cubin> cubin = assembler->assemble(ptx, find_target(target).value());
    REQUIRE_MESSAGE(cubin.ok(), cubin.error().message);
    const std::vector<Resources> kernels = kernels_of_steps(cubin.value());
    CHECK(kernels.size() == kinds.size());
    for (const Resources& kernel : kernels) {
      CAPTURE(kernel.kernel);
      CHECK(kinds.contains(static_cast<uint32_t>(std::stoul(kernel.kernel.substr(sizeof("mk_grid_") - 1)))));
      CHECK(kernel.spill_store_bytes + kernel.stack_bytes == 0);
    }
  }
}

TEST_CASE("the assembler's complaint carries the line of the PTX") {
  const std::unique_ptr<Assembler> assembler = any_assembler();
  if (!assembler) return;
  const Result<Cubin> cubin = assembler->assemble(
      ".version 8.7\n.target sm_90a\n.address_size 64\nnonsense;\n", find_target("sm_90a").value());
  REQUIRE(!cubin.ok());
  CHECK(cubin.error().message.find("line 4") != std::string::npos);
}

TEST_CASE("an assembler that is named but unusable is an error that says why") {
  const Dir dir;
  const auto script = [&](const char* name, const char* text) {
    const std::string path = dir.write(name, text);
    REQUIRE(chmod(path.c_str(), 0755) == 0);
    return path;
  };
  const auto problem = [&](const std::string& path) {
    const auto found = find_assembler(path);
    return found.ok() ? "" : dir.without_path(found.error().message);
  };
  CHECK(problem(dir.path + "/none") ==
        "--assembler none: error: cannot be started: No such file or directory");
  CHECK(problem(script("old", "#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n")) ==
        "--assembler old: error: is of CUDA 11.8, expected 12.8 or newer");
  CHECK(problem(script("other", "#!/bin/sh\necho hello\n")) ==
        "--assembler other: error: is no ptxas: it does not tell its release");
  CHECK(problem(dir.write("libnvJitLink.so", "not a library")).find("cannot be opened") != std::string::npos);
  const std::string fails = script("fails",
                                   "#!/bin/sh\n[ \"$1\" = --version ] && echo 'release 13.0' && exit 0\n"
                                   "echo 'kernel.ptx, line 7; error: bad' >&2\nexit 3\n");
  CHECK(
      dir.without_path(find_assembler(fails, 12080).error().message) ==
      "--assembler fails: error: the driver supports CUDA 12.8, and ptxas 13.0 (fails) makes cubins of CUDA "
      "13: expected a driver of 13.0 or newer, or an --assembler of CUDA 12.8 or 12.9");
  CHECK(find_assembler(fails, 13000).ok());
  const auto assembler = find_assembler(fails);
  REQUIRE(assembler.ok());
  const Result<Cubin> cubin = assembler.value()->assemble("x", find_target("sm_80").value());
  REQUIRE(!cubin.ok());
  CHECK(dir.without_path(cubin.error().message) ==
        "error: ptxas 13.0 (fails) failed (exit 3):\nkernel.ptx, line 7; error: bad\n");
}

// Variable sets an environment variable until the end of its scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_{};
};

TEST_CASE("each folder of PATH is searched, whole and in order") {
  const Variable none("MKC_ASSEMBLER", ""), home("CUDA_HOME", ""), toolkit("CUDA_PATH", "");
  const auto searched = [](const std::string& path) {
    const Variable variable("PATH", path);
    std::vector<std::string> found;
    for (const std::string& line : search_assemblers("").looked_at)
      if (line.ends_with(" (PATH)")) found.push_back(line.substr(0, line.size() - 7));
    return found;
  };
  CHECK(searched("") == std::vector<std::string>{});
  CHECK(searched("/bin") == std::vector<std::string>{"/bin/ptxas"});
  CHECK(searched("/one/two:/b:/three") ==
        std::vector<std::string>{"/one/two/ptxas", "/b/ptxas", "/three/ptxas"});
}

TEST_CASE("resources of each kernel are read from the assembler's log") {
  const std::vector<Resources> kernels = read_resources(
      "ptxas info    : 8 bytes gmem\n"
      "ptxas info    : Compiling entry function 'mk_grid_1' for 'sm_90a'\n"
      "ptxas info    : Function properties for mk_grid_1\n"
      "    56 bytes stack frame, 52 bytes spill stores, 68 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 2 barriers, 56 bytes cumulative stack size\n"
      "ptxas info    : Compiling entry function 'mk_grid_0' for 'sm_90a'\n"
      "ptxas info    : Function properties for mk_grid_0\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 20 registers, used 2 barriers\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "mk_grid_1");
  CHECK(kernels[0].registers == 168);
  CHECK(kernels[0].stack_bytes == 56);
  CHECK(kernels[0].spill_store_bytes == 52);
  CHECK(kernels[0].spill_load_bytes == 68);
  CHECK(kernels[1].kernel == "mk_grid_0");
  CHECK(kernels[1].registers == 20);
  CHECK(kernels[1].spill_load_bytes == 0);
}

}  // namespace
}  // namespace mkc
