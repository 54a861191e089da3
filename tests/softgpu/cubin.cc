#include "tests/softgpu/cubin.h"

#include <elf.h>

#include <cstring>

namespace softgpu {
namespace {

constexpr uint8_t kSizedValue = 4;        // format of an attribute: a size, then that many bytes
constexpr uint8_t kRegisterCount = 0x2f;  // EIATTR_REGCOUNT: a symbol, then its register count

}  // namespace

bool is_elf(const void* image) {
  return std::memcmp(image, ELFMAG, SELFMAG) == 0;
}

CubinParts read_cubin(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
  const char* names = bytes + sections[header->e_shstrndx].sh_offset;
  const Elf64_Shdr *info = nullptr, *symbols = nullptr;
  CubinParts parts;
  for (uint32_t n = 0; n < header->e_shnum; ++n) {
    const Elf64_Shdr& s = sections[n];
    if (s.sh_type == kPtxSection) parts.ptx.assign(bytes + s.sh_offset, s.sh_size);
    if (s.sh_type == SHT_SYMTAB) symbols = &s;
    if (std::strcmp(names + s.sh_name, ".nv.info") == 0) info = &s;
  }
  if (!info || !symbols) return parts;
  const auto* symbol = reinterpret_cast<const Elf64_Sym*>(bytes + symbols->sh_offset);
  const char* symbol_names = bytes + sections[symbols->sh_link].sh_offset;
  for (uint64_t at = 0; at + 4 <= info->sh_size;) {
    const char* entry = bytes + info->sh_offset + at;
    uint16_t size = 0;
    std::memcpy(&size, entry + 2, 2);
    if (entry[0] == kSizedValue && entry[1] == kRegisterCount && size >= 8) {
      uint32_t values[2];
      std::memcpy(values, entry + 4, sizeof values);
      parts.registers[symbol_names + symbol[values[0]].st_name] = values[1];
    }
    at += 4 + (entry[0] == kSizedValue ? size : 0u);
  }
  return parts;
}

}  // namespace softgpu
