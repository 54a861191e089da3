// The body that samples tokens runs alone under race detection. The body races nowhere and gives the host's
// tokens. Each barrier that is left out gives a report.
#include "runtime/session/sample.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>

#include <cmath>
#include <random>

#include "codegen/bitcode.h"
#include "codegen/device/bodies.h"
#include "codegen/kernel_module.h"
#include "codegen/optimise.h"
#include "codegen/race_hooks.h"
#include "runtime/emulator/emulator.h"
#include "tests/stress/edits.h"

namespace mkc::test {
namespace {

constexpr uint32_t kRequests = 4, kStages = 1;

// The step's first input points to SampleArgs, whose lists the kernel makes itself. Row i is the only row of
// request i.
const std::string kKernel = fmt::format(
    R"(
declare void @mkd_begin(ptr, ptr addrspace(1), ptr addrspace(1), i32)
declare void @mkd_barrier()
declare void @mkd_set_element(ptr, i32, i32, i32)
declare ptr addrspace(3) @mkd_list(ptr, i32)
declare void @mkb_sample(ptr, ptr, i32)
declare i32 @mk_thread()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @mk_kernel(ptr addrspace(1) %session, ptr addrspace(1) %step) {{
  %worker = alloca [{worker} x i8], align 8
  %arguments = alloca [{arguments} x i8], align 8
  call void @mkd_begin(ptr %worker, ptr addrspace(1) %session, ptr addrspace(1) %step, i32 {stages})
  %input = getelementptr i8, ptr addrspace(1) %step, i64 {input}
  %address = load i64, ptr addrspace(1) %input
  %given = inttoptr i64 %address to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %arguments, ptr %given, i64 {arguments}, i1 false)
  %first_row = getelementptr i8, ptr %arguments, i64 {first_row}
  %rows = getelementptr i8, ptr %arguments, i64 {rows}
  %list0 = call ptr addrspace(3) @mkd_list(ptr %worker, i32 0)
  %list1 = call ptr addrspace(3) @mkd_list(ptr %worker, i32 64)
  store ptr addrspace(3) %list0, ptr %first_row
  store ptr addrspace(3) %list1, ptr %rows
  %thread = call i32 @mk_thread()
  %consumes = icmp ult i32 %thread, {consumers}
  br i1 %consumes, label %consumer, label %end
consumer:
  %lists = icmp ult i32 %thread, {requests}
  br i1 %lists, label %list, label %listed
list:
  call void @mkd_set_element(ptr %worker, i32 0, i32 %thread, i32 %thread)
  call void @mkd_set_element(ptr %worker, i32 64, i32 %thread, i32 1)
  br label %listed
listed:
  call void @mkd_barrier()
  br label %sample
sample:
  %i = phi i32 [ 0, %listed ], [ %next, %sample ]
  call void @mkb_sample(ptr %worker, ptr %arguments, i32 %i)
  call void @mkd_barrier()
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, {requests}
  br i1 %more, label %sample, label %end
end:
  ret void
}}
define zeroext i1 @mk_tracing() alwaysinline {{
  ret i1 false
}}
)",
    fmt::arg("worker", sizeof(mk::Worker)), fmt::arg("arguments", sizeof(mk::SampleArgs)),
    fmt::arg("stages", kStages), fmt::arg("input", offsetof(mkrt::MkStep, input)),
    fmt::arg("first_row", offsetof(mk::SampleArgs, first_row)),
    fmt::arg("rows", offsetof(mk::SampleArgs, rows)), fmt::arg("consumers", mkrt::kConsumerThreads),
    fmt::arg("requests", kRequests));

template <class T>
T checked(llvm::Expected<T> value) {
  if (!value) FAIL(llvm::toString(value.takeError()));
  return std::move(*value);
}

std::unique_ptr<llvm::Module> kernel_module(llvm::LLVMContext& context) {
  llvm::SMDiagnostic fault;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(kKernel, fault, context);
  REQUIRE_MESSAGE(module, fault.getMessage().str());
  for (const Bitcode& file : device_bitcode()) {
    const std::string_view name = file.name;
    if (name != "worker" && name != "lists" && name != "sample") continue;
    const llvm::StringRef bytes(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
    std::unique_ptr<llvm::Module> part = checked(llvm::parseBitcodeFile({bytes, file.name}, context));
    for (llvm::Function& f : *part)
      for (const char* attribute : {"target-cpu", "target-features"}) f.removeFnAttr(attribute);
    module->setDataLayout(part->getDataLayout());
    module->setTargetTriple(part->getTargetTriple());
    REQUIRE_FALSE(llvm::Linker::linkModules(*module, std::move(part)));
  }
  return module;
}

struct Kernel {
  mkrt::KernelEntry entry;
  std::unique_ptr<llvm::orc::LLJIT> code;
};

Kernel compile(const std::vector<std::vector<SiteEdit>>& mutants, const uint32_t* selected) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = checked(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Fast;  // GPUs fuse multiplications and additions
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module = kernel_module(*context);
  apply_selectable(*module, mutants, selected);
  simplify_bodies(*module);
  optimise(*module, *checked(machine.createTargetMachine()));
  add_race_hooks(*module);
  Kernel kernel;
  kernel.code = checked(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create());
  llvm::orc::SymbolMap symbols;
  for (const auto& [name, address] : mkrt::emulator_symbols())
    symbols[kernel.code->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                   llvm::JITSymbolFlags::Exported};
  llvm::cantFail(kernel.code->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(
      kernel.code->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  kernel.entry = checked(kernel.code->lookup("mk_kernel")).toPtr<mkrt::KernelEntry>();
  return kernel;
}

template <class T>
AS1 T* global(std::vector<T>& v) {
  return (AS1 T*)reinterpret_cast<uintptr_t>(v.data());
}

struct Outcome {
  std::vector<mkrt::Sampled> sampled, wanted;
  size_t races;
};

// One worker samples for all requests, one after the other.
Outcome run(const Kernel& kernel, uint64_t seed) {
  const uint32_t vocab = 4100, strips = (vocab + 15) / 16, words = (vocab + 31) / 32;
  std::vector<mkrt::MkSampling> sampling = {
      {1.2f, 0.8f, 100, 0.9f, 0.01f, 4, 1}, {1, 0, 0, 1, 0, 4}, {1.2f, 0}, {1, 2, 0, 0.5f, 0, 0, 2}};
  std::vector<float> logits(kRequests * vocab), best(kRequests * strips);
  std::vector<uint32_t> index(best.size()), seen(kRequests * words, 0x10101u), next(kRequests),
      sampled(2 * kRequests), launch_request(kRequests);
  std::vector<mkrt::MkLogprobs> logprobs(kRequests);
  const std::vector<mkrt::MkBias> biases{{0, 2, 0}, {130, -INFINITY, 0}, {131, 0, 1.5f}, {vocab - 1, 1, -1}};
  std::vector<uint32_t> bias_begin((vocab + mkrt::kBiasBlockIds - 1) / mkrt::kBiasBlockIds + 1),
      allowed(words, 0x7f7f7f7fu);
  mkrt::index_biases(biases, bias_begin);
  std::vector<mkrt::MkSample> samples(kRequests);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 3);
  for (float& v : logits) v = std::round(normal(rng) * 8) / 8;
  for (uint32_t at = 0; at < best.size(); ++at) {
    const uint32_t row = at / strips * vocab, first = at % strips * 16;
    const auto begin = logits.begin() + row;
    const auto greatest = std::max_element(begin + first, begin + std::min(first + 16, vocab));
    best[at] = *greatest, index[at] = static_cast<uint32_t>(greatest - begin);
  }
  Outcome out;
  const auto has_biases = [](uint32_t i) { return i % 2 == 0; };
  for (uint32_t i = 0; i < kRequests; ++i) {
    mkrt::LogitChanges changes{.seen = std::span(seen).subspan(i * words, words)};
    if (has_biases(i)) changes.biases = biases, changes.allowed = allowed;
    out.wanted.push_back(mkrt::sample(std::span(logits).subspan(i * vocab, vocab), sampling[i], changes));
  }
  const auto address = [](auto& of) { return reinterpret_cast<uint64_t>(&of); };
  for (uint32_t i = 0; i < kRequests; ++i) {
    launch_request[i] = i;
    samples[i].sampling = sampling[i];
    if (sampling[i].repetition_penalty != 1) samples[i].seen = address(seen[i * words]);
    if (has_biases(i)) {
      samples[i].allowed = address(allowed[0]);
      samples[i].biases = address(biases[0]);
      samples[i].bias_begin = address(bias_begin[0]);
    }
    samples[i].sampled = address(sampled[2 * i]);
    samples[i].logprobs = address(logprobs[i]);
    samples[i].limit = 1;
  }
  const mk::SampleArgs arguments{global(logits),
                                 global(best),
                                 global(index),
                                 global(next),
                                 global(samples),
                                 global(launch_request),
                                 nullptr,
                                 nullptr,
                                 kRequests,
                                 0,
                                 vocab};
  mkrt::MkFault fault{};
  std::vector<uint32_t> counters(8);
  mkrt::MkSession session{};
  session.fault = reinterpret_cast<uint64_t>(&fault);
  session.counters = reinterpret_cast<uint64_t>(counters.data());
  session.event_cells = 4, session.workers = 1;
  mkrt::MkStep step{};
  step.input[0] = reinterpret_cast<uint64_t>(&arguments);
  mkrt::EmulatorOptions options;
  options.shared_bytes = kStages * mkrt::kStageBytes + mk::kBarrierBytes + mk::kListBytes + mk::kScratchBytes;
  options.seed = seed, options.race = true;
  std::vector<mkrt::RaceReport> races;
  const auto stats = mkrt::emulate(kernel.entry, &session, &step, options, nullptr, &races);
  REQUIRE_MESSAGE(stats.ok(), (stats.ok() ? "" : stats.error().message));
  for (uint32_t i = 0; i < kRequests; ++i) {
    const uint32_t asked = sampling[i].logprobs;
    const mkrt::MkLogprobs& of = logprobs[i];
    mkrt::Sampled& d =
        out.sampled.emplace_back(mkrt::Sampled{static_cast<int32_t>(next[i]), asked ? of.sampled : 0, {}});
    if (asked) d.rank = of.rank;
    for (uint32_t k = 0; k + 1 < asked; ++k) d.top.push_back({static_cast<int32_t>(of.top_id[k]), of.top[k]});
  }
  out.races = races.size();
  return out;
}

TEST_CASE("drawing has no race, as each of its barriers left out has") {
  const std::string barrier = "consumer_barrier";
  // The first barrier of rank_in() is not tried: the search before it, for the total, has barriers as well.
  const std::vector<std::vector<SiteEdit>> mutants = {{{"8greatestE", barrier, 0, drop}},
                                                      {{"8greatestE", barrier, 1, drop}},
                                                      {{"7rank_inE", barrier, 1, drop}},
                                                      {{"total_bins", barrier, 0, drop}},
                                                      {{"total_bins", barrier, 1, drop}}};
  uint32_t selected = 0;
  const Kernel kernel = compile(mutants, &selected);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Outcome outcome = run(kernel, seed);
    CHECK(outcome.races == 0);
    CHECK(outcome.sampled == outcome.wanted);
  }
  for (selected = 1; selected <= mutants.size(); ++selected) {
    CAPTURE(selected);
    size_t races = 0;
    for (uint64_t seed = 0; seed < 4; ++seed) races += run(kernel, seed).races;
    CHECK(races > 0);
  }
}

}  // namespace
}  // namespace mkc::test
