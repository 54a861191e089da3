#include "runtime/artefact/cubin.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string_view>

namespace mkrt {
namespace {

using Bytes = std::span<const std::byte>;

// Returns the T at `offset`, or nothing where it does not lie within the bytes.
template <class T>
std::optional<T> value_at(Bytes bytes, uint64_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<Bytes> part(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

// Elf is a 64-bit ELF file, read with every bound checked.
struct Elf {
  Bytes bytes;
  Elf64_Ehdr header;

  std::optional<Elf64_Shdr> section(uint64_t index) const {
    if (index >= header.e_shnum) return std::nullopt;
    return value_at<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  }

  // Tells whether the file holds everything that its headers refer to.
  bool whole() const {
    if (header.e_shentsize != sizeof(Elf64_Shdr) ||
        !part(bytes, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
        !part(bytes, header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize))
      return false;
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr s = *section(i);
      if (s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS && !part(bytes, s.sh_offset, s.sh_size))
        return false;
    }
    return true;
  }

  // Returns the bytes of the data object `name`.
  std::optional<Bytes> object(std::string_view name) const {
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto table = section(i);
      if (!table || table->sh_type != SHT_SYMTAB) continue;
      const auto strings = section(table->sh_link);
      if (!strings) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = value_at<Elf64_Sym>(bytes, table->sh_offset + at);
        if (!symbol) return std::nullopt;
        const auto text = part(bytes, strings->sh_offset + symbol->st_name, name.size() + 1);
        if (!text || std::memcmp(text->data(), name.data(), name.size()) != 0 || text->back() != std::byte{0})
          continue;
        const auto holder = section(symbol->st_shndx);
        if (!holder || holder->sh_type == SHT_NOBITS) return std::nullopt;
        // A symbol of a shared object has an address, a symbol of a cubin an offset in its section.
        const uint64_t at_section = header.e_type == ET_DYN ? holder->sh_addr : 0,
                       begin = symbol->st_value - at_section;
        if (symbol->st_value < at_section || begin > holder->sh_size ||
            symbol->st_size > holder->sh_size - begin)
          return std::nullopt;
        return part(bytes, holder->sh_offset + begin, symbol->st_size);
      }
    }
    return std::nullopt;
  }
};

}  // namespace

Result<CubinObjects> find_objects(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& what) { return Error{fmt::format("{}: error: {}", name, what)}; };
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return fail("not a cubin or shared object: expected a 64-bit ELF file");
  const Elf elf{bytes, *header};
  if (!elf.whole()) return fail("truncated: its headers speak of bytes outside the file");
  const auto manifest = elf.object("mk_manifest"), plan = elf.object("mk_plan");
  if (!manifest || !plan)
    return fail(fmt::format("has no {}: expected a cubin or shared object made by mkc",
                            manifest ? "mk_plan" : "mk_manifest"));
  return CubinObjects{*manifest, *plan};
}

}  // namespace mkrt
