#include "codegen/host_bodies.h"

#include <llvm/Object/ObjectFile.h>

#include <sstream>

#include "codegen/bitcode.h"
#include "codegen/jit.h"
#include "codegen/llvm_memory.h"
#include "runtime/device/processor.h"
#include "runtime/emulator/emulator.h"

namespace mkc {
namespace {

llvm::StringRef embedded(const char* name) {
  const std::span<const unsigned char> bytes = find_bitcode(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the names of the functions that other objects can call.
std::vector<std::string> functions_of(llvm::MemoryBufferRef file) {
  using llvm::object::SymbolRef;
  std::vector<std::string> names;
  const auto object = or_bug(llvm::object::ObjectFile::createObjectFile(file));
  for (const SymbolRef& symbol : object->symbols()) {
    const uint32_t flags = or_bug(symbol.getFlags());
    const bool called = flags & SymbolRef::SF_Global && !(flags & SymbolRef::SF_Undefined);
    if (called && or_bug(symbol.getType()) == SymbolRef::ST_Function)
      names.push_back(or_bug(symbol.getName()).str());
  }
  return names;
}

HostBodies load(const char* name, const char* sites) {
  const LlvmMemory memory;
  const llvm::MemoryBufferRef file(embedded(name), name);
  llvm::orc::LLJIT* jit = make_jit(host_machine(false), {}).release();  // lives as long as the process
  or_bug(jit->addObjectFile(llvm::MemoryBuffer::getMemBuffer(file, false)));
  HostBodies bodies;
  bodies.code = jit;
  for (const std::string& function : functions_of(file))
    bodies.functions.emplace_back(function, or_bug(jit->lookup(function)).toPtr<void*>());
  if (!sites) return bodies;
  std::istringstream lines(embedded(sites).str());
  for (std::string site; std::getline(lines, site);) bodies.sites.push_back(site);
  return bodies;
}

}  // namespace

const HostBodies* host_bodies(bool race) {
  if (mkrt::processor_targets().empty()) return nullptr;
  if (race) {
    static const HostBodies reporting = load("host_bodies_race", "host_bodies_sites");
    return &reporting;
  }
  static const HostBodies plain = load("host_bodies", nullptr);
  return &plain;
}

}  // namespace mkc
