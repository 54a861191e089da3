// Manifests and artefacts' files are parsed here. Valid inputs describe a model of two grids.
#include <elf.h>

#include <cstring>

#include "runtime/artefact/artefact.h"
#include "tests/attack/fuzz/parsers.h"
#include "tests/unit/runtime/made_artefact.h"

namespace mkc::attack {
namespace {

using namespace mkrt;

Manifest manifest() {
  Manifest m;
  m.abi = kAbiVersion;
  m.mkc_version = "1.2.3";
  m.model = "llama";
  m.target = "sm_90a";
  m.workers = 2;
  m.threads = kWorkerThreads;
  m.shared_bytes = 100000;
  m.ring_stages = 4;
  m.event_cells = 4;
  m.weight_bytes = 1 << 18;
  m.workspace_bytes = 4096;
  m.vocab = 64;
  m.eos_ids = {2, 63};
  m.symbols = {{"T", 1, 16}, {"B", 1, 2}, {"kv_len", 1, 32, true}};
  m.inputs = {{"tokens", Arena::kInput, Element::kI32, 0, 0, {16}}};
  m.outputs = {{"next", Arena::kWorkspace, Element::kI32, 256, 64, {16}}};
  m.weights = {{"w", 0, 131072, WeightLayout::kPacked, Element::kBf16, 64, 1024, 8, {"gate", "up"}}};
  m.ropes = {{"rope", 131072, 32, {1.0, 0.1}, 1.5}};
  m.tensors = {{"x", Arena::kWorkspace, Element::kF32, 512, 1024, {16, 16}}};
  m.caches = {{"l0.k", Element::kE4m3, 2, 64, "k_scale"}};
  m.grids.resize(2);
  m.grids[0].name = "embed";
  m.grids[0].placement = GridPlacement::kTable;
  m.grids[0].tasks = 7;
  m.grids[0].notifies = {"e"};
  m.grids[0].operands = {"tokens", "", "x"};
  m.grids[1].name = "l0.q";
  m.grids[1].kind = 1;
  m.grids[1].placement = GridPlacement::kQueue;
  m.grids[1].tickets = 3;
  m.grids[1].waits = {"e"};
  m.grids[1].operands = {"x", "w"};
  m.grids[1].product = {64, 1024, 32, 4, 2, 512, 1, 0x358637bd, 0, 0, 0, 1};
  m.events = {{"e", 0, 2}};
  return m;
}

// Returns a 64-bit ELF file whose one data section holds two globals. `address` is that of the section in a
// shared object, or 0 in a cubin.
std::string elf_of(const std::string& text, const std::vector<std::byte>& plan, uint64_t address) {
  const std::string names("\0mk_manifest\0mk_plan\0", 21);
  std::string data = text;
  data.append(reinterpret_cast<const char*>(plan.data()), plan.size());
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = address != 0 ? ET_DYN : ET_EXEC;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Sym symbols[3]{};
  symbols[1] = {1, 0, 0, 3, address, text.size()};
  symbols[2] = {13, 0, 0, 3, address + text.size(), plan.size()};
  Elf64_Shdr sections[4]{};
  header.e_shoff = sizeof(header);
  uint64_t at = sizeof(header) + sizeof(sections);
  const auto place = [&](size_t i, uint32_t type, uint64_t size) {
    sections[i].sh_type = type, sections[i].sh_offset = at, sections[i].sh_size = size;
    at += size;
  };
  place(1, SHT_SYMTAB, sizeof(symbols));
  sections[1].sh_link = 2;
  place(2, SHT_STRTAB, names.size());
  place(3, SHT_PROGBITS, data.size());
  sections[3].sh_addr = address;
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  return bytes(header) + bytes(sections) + bytes(symbols) + names + data;
}

}  // namespace

void run_manifest(std::string_view input) {
  const Result<Manifest> parsed = parse_manifest(input);
  if (!parsed.ok()) return;
  const Result<Manifest> again = parse_manifest(to_json(parsed.value()));
  promise(again.ok() && again.value() == parsed.value(), "a manifest is read back as it was written");
  (void)check_plan(parsed.value(), test::plan_of(manifest()));
}

void run_artefact(std::string_view input) {
  (void)read_artefact(std::as_bytes(std::span(input.data(), input.size())), "input.cubin",
                      SealCheck::kSkipped);
}

std::vector<std::string> manifest_seeds() {
  return {to_json(test::made_artefact(manifest()).manifest)};
}

std::vector<std::string> artefact_seeds() {
  const Artefact a = test::made_artefact(manifest());
  const std::string text = to_json(a.manifest) + "  ";
  return {elf_of(text, a.plan, 0), elf_of(text, a.plan, 0x4000)};
}

}  // namespace mkc::attack
