#include "codegen/race_hooks.h"

#include <fmt/format.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>

#include "ir/diag.h"

namespace mkc {
namespace {

struct Hooks {
  explicit Hooks(llvm::Module& m) : module(m) {
    llvm::LLVMContext& context = m.getContext();
    pointer = llvm::PointerType::get(context, 0);
    word = llvm::Type::getInt32Ty(context);
    llvm::Type* nothing = llvm::Type::getVoidTy(context);
    read = m.getOrInsertFunction("mk_race_read", nothing, pointer, word, word);
    write = m.getOrInsertFunction("mk_race_write", nothing, pointer, word, word);
  }

  static bool shared_between_threads(const llvm::Value* address) {
    const unsigned space = address->getType()->getPointerAddressSpace();
    return space == 1 || space == 3;
  }

  void call(llvm::FunctionCallee hook, llvm::Instruction& before, llvm::Value* address, llvm::Value* bytes) {
    if (!shared_between_threads(address)) return;
    llvm::IRBuilder<> ir(&before);
    ir.CreateCall(hook, {ir.CreateAddrSpaceCast(address, pointer), ir.CreateZExtOrTrunc(bytes, word),
                         ir.getInt32(site_of(before))});
  }

  void report(llvm::Instruction& i) {
    const auto size = [&](llvm::Type* type) {
      return llvm::ConstantInt::get(word, module.getDataLayout().getTypeStoreSize(type).getFixedValue());
    };
    if (i.isAtomic()) return;  // atomics may touch words that other threads access at the same time
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
      call(read, i, load->getPointerOperand(), size(load->getType()));
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
      call(write, i, store->getPointerOperand(), size(store->getValueOperand()->getType()));
    } else if (auto* fill = llvm::dyn_cast<llvm::MemIntrinsic>(&i)) {
      call(write, i, fill->getRawDest(), fill->getLength());
      if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(fill))
        call(read, i, copy->getRawSource(), copy->getLength());
    }
  }

  // Returns the source line of an access. The optimiser drops the line of an access that it merges or moves.
  // The result is then the line of the value's first user, or of the nearest instruction before.
  static llvm::DebugLoc line_of(const llvm::Instruction& i) {
    const auto has_line = [](const llvm::Instruction* at) {
      return at != nullptr && at->getDebugLoc() && at->getDebugLoc().getLine() != 0;
    };
    if (has_line(&i)) return i.getDebugLoc();
    for (const llvm::User* user : i.users())
      if (const auto* at = llvm::dyn_cast<llvm::Instruction>(user); has_line(at)) return at->getDebugLoc();
    const llvm::Instruction* at = &i;
    while (at != nullptr && !has_line(at)) at = at->getPrevNode();
    return at != nullptr ? at->getDebugLoc() : llvm::DebugLoc();
  }

  uint32_t site_of(const llvm::Instruction& i) {
    llvm::DebugLoc at = line_of(i);
    if (!at) return 0;
    // An access in a file that all bodies share gets the line of its caller.
    const auto is_shared = [](llvm::StringRef file) {
      return file.ends_with("/worker.h") || file.ends_with("/storage_types.h");
    };
    while (is_shared(at->getFilename()) && at->getInlinedAt()) at = at->getInlinedAt();
    const std::string file = at->getFilename().str();
    const std::string name = fmt::format("{}:{}", file.substr(file.rfind('/') + 1), at.getLine());
    const auto [entry, added] = numbers.try_emplace(name, static_cast<uint32_t>(sites.size()));
    if (added) sites.push_back(name);
    return entry->second;
  }

  llvm::Module& module;
  llvm::PointerType* pointer;
  llvm::Type* word;
  llvm::FunctionCallee read, write;
  std::map<std::string, uint32_t> numbers;
  std::vector<std::string> sites{"scaffold"};
};

}  // namespace

std::vector<std::string> add_race_hooks(llvm::Module& module) {
  Hooks hooks(module);
  std::vector<llvm::Instruction*> accesses;
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& i : block)
        if (i.mayReadOrWriteMemory()) accesses.push_back(&i);
  for (llvm::Instruction* i : accesses) hooks.report(*i);
  return std::move(hooks.sites);
}

}  // namespace mkc
