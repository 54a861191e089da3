// The build runs this program to make machine code of a library of simplified bodies, which quick code calls:
// compile TARGET shown|hidden LIBRARY.bc OUT.o [SITES.txt]. Hidden functions stay in the shared object that
// they are linked into. With SITES.txt the code reports its accesses to the emulator's race detector, and the
// file gets the source line of each site.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/link.h"
#include "codegen/optimise.h"
#include "codegen/processor_machine.h"
#include "codegen/race_hooks.h"

namespace {

void hide_functions(llvm::Module& library) {
  for (llvm::Function& f : library)
    if (!f.isDeclaration() && !f.hasLocalLinkage()) f.setVisibility(llvm::GlobalValue::HiddenVisibility);
}

bool write_sites(llvm::Module& library, const char* path) {
  std::error_code failed;
  llvm::raw_fd_ostream out(path, failed);
  for (const std::string& site : mkc::add_race_hooks(library)) out << site << '\n';
  return !failed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const char* sites = argc > 5 ? argv[5] : nullptr;
  // These passes take a third of the time and save little.
  const char* options[] = {argv[0],
                           "-disable-cgp",
                           "-enable-misched=false",
                           "-disable-machine-sink",
                           "-disable-machine-cse",
                           "-disable-block-placement",
                           sites ? "-regalloc=fast" : "-regalloc=basic"};
  llvm::cl::ParseCommandLineOptions(std::size(options), options);
  const mkc::Result<mkc::Target> target = mkc::find_target(argv[1]);
  if (!target.ok()) return 2;
  // The race detector takes most of a run's time, so that faster code would save little of it.
  const std::unique_ptr<llvm::TargetMachine> machine = mkc::processor_machine(
      target.value(), sites ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Less);
  machine->Options.FunctionSections = true;  // a shared object keeps what it calls
  llvm::LLVMContext context;
  const auto file = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(argv[3])), argv[3]);
  const auto library = llvm::cantFail(llvm::parseBitcodeFile(*file, context), argv[3]);
  mkc::decide_tracing(*library, false);
  mkc::optimise(*library, *machine, true);
  if (sites && !write_sites(*library, sites)) return 1;
  llvm::StripDebugInfo(*library);
  if (std::string_view(argv[2]) == "hidden") {
    mkc::sanitize_threads(*library);
    hide_functions(*library);
  }
  std::error_code failed;
  llvm::raw_fd_ostream out(argv[4], failed);
  llvm::legacy::PassManager passes;
  if (failed || machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    return 1;
  passes.run(*library);
  return 0;
}
