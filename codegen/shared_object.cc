#include "codegen/shared_object.h"

#include <fmt/format.h>
#include <lld/Common/CommonLinkerContext.h>
#include <lld/Common/Driver.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>

#include <filesystem>
#include <mutex>

#include "codegen/bitcode.h"
#include "codegen/kernel_module.h"
#include "codegen/llvm_memory.h"
#include "codegen/optimise.h"
#include "codegen/processor_machine.h"
#include "runtime/artefact/seal.h"
#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"

LLD_HAS_DRIVER(elf)

namespace mkc {
namespace {

llvm::CodeGenOptLevel level_of(bool quick) {
  return quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
}

std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context, const Schedule& schedule, Mode mode,
                                          const Target& target, llvm::TargetMachine& machine,
                                          bool quick = false) {
  std::unique_ptr<llvm::Module> module =
      make_kernel_module(context, schedule, find_kinds(schedule, mode), mode, target.engines,
                         {.names = target.libraries, .called = calls_bodies(mode, quick)});
  optimise(*module, machine, quick);
  sanitize_threads(*module);
  return module;
}

std::vector<std::byte> emit(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  const bool cannot = machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile);
  MKC_ASSERT(!cannot, "LLVM cannot emit an object file");
  passes.run(module);
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const char>(object));
  return {bytes.begin(), bytes.end()};
}

void add_global(llvm::Module& module, const char* name, std::span<const std::byte> bytes) {
  const llvm::StringRef text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  llvm::Constant* value = llvm::ConstantDataArray::getString(module.getContext(), text, false);
  auto* global = new llvm::GlobalVariable(module, value->getType(), true, llvm::GlobalValue::ExternalLinkage,
                                          value, name);
  global->setAlignment(llvm::Align(16));
}

// Returns an object file with plan and manifest.
std::vector<std::byte> make_data_object(std::span<const std::byte> plan, const mkrt::Manifest& manifest,
                                        const Target& target) {
  const LlvmMemory memory;
  const std::unique_ptr<llvm::TargetMachine> machine = processor_machine(target, level_of(false));
  llvm::LLVMContext context;
  llvm::Module module("data", context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  const std::string json = mkrt::to_json_with_room(manifest);
  add_global(module, "mk_plan", plan);
  add_global(module, "mk_manifest", std::as_bytes(std::span(json)));
  return emit(module, *machine);
}

// Tells whether an object file has bodies that kernels of the target call. Quick kernels inline none.
bool is_body_of(const Target& target, bool quick, const std::string& file) {
  return file.starts_with(target.libraries[0] + "_") || (quick && file == "called_" + target.libraries[0]);
}

}  // namespace

std::vector<std::byte> make_processor_object(const Schedule& schedule, Mode mode, const Target& target,
                                             bool quick) {
  const LlvmMemory memory;
  const std::unique_ptr<llvm::TargetMachine> machine = processor_machine(target, level_of(quick));
  llvm::LLVMContext context;
  return emit(*make_module(context, schedule, mode, target, *machine, quick), *machine);
}

std::string make_processor_ir(const Schedule& schedule, Mode mode, const Target& target) {
  const LlvmMemory memory;
  const std::unique_ptr<llvm::TargetMachine> machine = processor_machine(target, level_of(false));
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  make_module(context, schedule, mode, target, *machine)->print(stream, nullptr);
  return text;
}

// kLinkerBytes is more than what a linker adds to its inputs: headers, and room between segments.
constexpr size_t kLinkerBytes = 1 << 16;

Result<std::vector<std::byte>> link_processor_object(std::span<const std::byte> object,
                                                     std::span<const std::byte> plan,
                                                     const mkrt::Manifest& manifest, const Target& target,
                                                     bool quick) {
  const mkrt::TemporaryFolder scratch;
  if (scratch.path.empty()) return Error{fmt::format("error: {}", scratch.fault())};
  const std::string code = scratch.path + "/code.o", data = scratch.path + "/data.o",
                    out = scratch.path + "/out.so";
  if (Status status = mkrt::write_file(code, object); !status.ok()) return status.error();
  const std::vector<std::byte> data_object = make_data_object(plan, manifest, target);
  if (Status status = mkrt::write_file(data, data_object); !status.ok()) return status.error();
  std::vector<std::string> arguments = {
      "ld.lld", "--threads=1", "-shared", "--build-id=none", "-z", "now", "--gc-sections", "-o",
      out,      code,          data};
  size_t bytes = kLinkerBytes + object.size() + data_object.size();
  for (const Bitcode& body : device_bitcode()) {
    if (!is_body_of(target, quick, body.name)) continue;
    bytes += body.bytes.size();
    arguments.push_back(fmt::format("{}/{}.o", scratch.path, body.name));
    if (Status status = mkrt::write_file(arguments.back(), std::as_bytes(body.bytes)); !status.ok())
      return status.error();
  }
  // The linker writes to a mapped file, where a full disk would end the process.
  if (Status room = mkrt::write_file(out, std::vector<std::byte>(bytes)); !room.ok()) return room.error();
  std::filesystem::remove(out);
  std::vector<const char*> words;
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  std::string said;
  llvm::raw_string_ostream stream(said);
  static std::mutex mutex;  // lld keeps its state in globals
  {
    const std::lock_guard lock(mutex);
    const bool linked = lld::elf::link(words, stream, stream, false, false);
    lld::CommonLinkerContext::destroy();
    MKC_ASSERT(linked, "the kernel does not link: " + said);
  }
  const mkrt::Result<mkrt::MappedFile> file = mkrt::map_file(out);
  if (!file.ok()) return file.error();
  return std::vector<std::byte>(file.value().bytes.begin(), file.value().bytes.end());
}

}  // namespace mkc
