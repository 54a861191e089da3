// The build runs this program to make one library of task bodies and primitives: library lines|no_lines
// OUT.bc IN.bc... The bodies are simplified. `lines` keeps their source lines.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/link.h"
#include "codegen/optimise.h"

namespace {

std::unique_ptr<llvm::Module> read_module(llvm::LLVMContext& context, const char* path) {
  const auto file = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(path)), path);
  return llvm::cantFail(llvm::parseBitcodeFile(*file, context), path);
}

// Keeps the lines of accesses and calls alone, which the race detector names. Each copy of a line takes time.
void keep_lines_of_accesses(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& i : block)
        if (!i.mayReadOrWriteMemory() && !llvm::isa<llvm::CallBase>(i)) i.setDebugLoc(llvm::DebugLoc());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool lines = std::string_view(argv[1]) == "lines";
  llvm::LLVMContext context;
  llvm::Module library("device", context);
  for (int i = 3; i < argc; ++i) {
    std::unique_ptr<llvm::Module> part = read_module(context, argv[i]);
    if (i == 3) library.setTargetTriple(part->getTargetTriple());
    if (i == 3) library.setDataLayout(part->getDataLayout());
    mkc::link(library, std::move(part), mkc::Linked::kAll);
  }
  if (lines) library.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  if (lines)
    keep_lines_of_accesses(library);
  else
    llvm::StripDebugInfo(library);
  mkc::simplify_bodies(library);
  std::error_code failed;
  llvm::raw_fd_ostream out(argv[2], failed);
  if (failed) return 1;
  llvm::WriteBitcodeToFile(library, out);
  return 0;
}
