#include "runtime/artefact/cubin.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>

#include "runtime/artefact/artefact.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

TEST_CASE("an artefact is an ELF file with a manifest") {
  const test::TempDir dir;
  const auto refused = [&](std::string_view bytes) {
    return dir.without_path(load_artefact(dir.write("f.cubin", bytes)).error().message);
  };
  CHECK(refused("") == "f.cubin: error: not a cubin or shared object: expected a 64-bit ELF file");
  CHECK(refused(std::string(100, 'x')) ==
        "f.cubin: error: not a cubin or shared object: expected a 64-bit ELF file");
  std::string elf(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  elf.resize(64);
  CHECK(refused(elf) == "f.cubin: error: truncated: its headers speak of bytes outside the file");
  elf[0x3a] = 64;  // the size of a section header
  CHECK(refused(elf) == "f.cubin: error: has no mk_manifest: expected a cubin or shared object made by mkc");
}

// Symbol is an entry of an ELF symbol table.
struct Symbol {
  const char* name;
  uint16_t section;
  uint64_t at, size;  // `at` is an offset in the section, or an address in a shared object
};
constexpr uint64_t kDigits = 0x4000, kLetters = 0x4020;  // addresses of the sections of data

// Returns an ELF file of a symbol table, the symbols' names, and two sections of data.
std::string elf_of(const std::vector<Symbol>& symbols, uint32_t type_of_data = SHT_PROGBITS,
                   Elf64_Half type = ET_EXEC) {
  std::string names(1, '\0'), table;
  for (const Symbol& s : symbols) {
    Elf64_Sym entry{};
    entry.st_name = static_cast<Elf64_Word>(names.size());
    entry.st_shndx = s.section;
    entry.st_value = s.at;
    entry.st_size = s.size;
    names += s.name;
    names += '\0';
    table.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  const std::string parts[] = {table, names, "0123456789", "abcdef"};
  const uint32_t types[] = {SHT_SYMTAB, SHT_STRTAB, type_of_data, type_of_data};
  const uint64_t addresses[] = {0, 0, kDigits, kLetters};
  std::vector<Elf64_Shdr> sections(5);
  std::string file(sizeof(Elf64_Ehdr), '\0');
  for (size_t i = 0; i < 4; ++i) {
    sections[i + 1].sh_type = types[i];
    sections[i + 1].sh_addr = addresses[i];
    sections[i + 1].sh_offset = file.size();
    sections[i + 1].sh_size = parts[i].size();
    sections[i + 1].sh_link = i == 0 ? 2 : 0;
    file += parts[i];
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = type;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 5;
  header.e_shoff = file.size();
  file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

// Returns the manifest and the plan of a file, or the error.
std::string objects(const std::string& file) {
  const Result<CubinObjects> found = find_objects(std::as_bytes(std::span(file)), "f");
  if (!found.ok()) return found.error().message;
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  return text(found.value().manifest) + "|" + text(found.value().plan);
}

const std::string no_manifest = "f: error: has no mk_manifest: expected a cubin or shared object made by mkc",
                  no_plan = "f: error: has no mk_plan: expected a cubin or shared object made by mkc";

TEST_CASE("a cubin's manifest and plan are the bytes of the symbols of these names") {
  const Symbol plan{"mk_plan", 4, 0, 6};
  CHECK(objects(elf_of({{"mk_manifest", 3, 2, 3}, plan})) == "234|abcdef");
  CHECK(objects(elf_of({plan, {"other", 3, 0, 10}, {"mk_manifest", 3, 0, 10}})) == "0123456789|abcdef");
  CHECK(objects(
            elf_of({{"mk_manifest_2", 3, 0, 1}, {"mk_manifes", 3, 0, 1}, {"mk_manifest", 3, 9, 1}, plan})) ==
        "9|abcdef");
  CHECK(objects(elf_of({{"mk_manifest", 3, 10, 0}, plan})) == "|abcdef");
  CHECK(objects(elf_of({plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 3, 0, 4}})) == no_plan);
  CHECK(objects(elf_of({})) == no_manifest);
  // These symbols lie beyond their section, in a missing section, or in one without bytes.
  CHECK(objects(elf_of({{"mk_manifest", 3, 0, 11}, plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 3, 11, 0}, plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 3, 5, 6}, plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 3, UINT64_MAX, 2}, plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 5, 0, 1}, plan})) == no_manifest);
  CHECK(objects(elf_of({{"mk_manifest", 3, 0, 1}, plan}, SHT_NOBITS)) == no_manifest);
  const std::string whole = elf_of({{"mk_manifest", 3, 2, 3}, plan});
  for (size_t size = 0; size < whole.size(); ++size)
    CHECK(objects(whole.substr(0, size))
              .starts_with(size < sizeof(Elf64_Ehdr) ? "f: error: not a cubin or shared object"
                                                     : "f: error: truncated"));
  for (const size_t at : {EI_MAG0, EI_MAG3, EI_CLASS}) {
    std::string other = whole;
    other[at] ^= 3;
    CHECK(objects(other) == "f: error: not a cubin or shared object: expected a 64-bit ELF file");
  }
}

TEST_CASE("symbols of a shared object are addresses") {
  const auto shared = [](const std::vector<Symbol>& symbols, uint32_t type_of_data = SHT_PROGBITS) {
    return elf_of(symbols, type_of_data, ET_DYN);
  };
  const Symbol plan{"mk_plan", 4, kLetters, 6};
  CHECK(objects(shared({{"mk_manifest", 3, kDigits + 2, 3}, plan})) == "234|abcdef");
  CHECK(objects(shared({{"mk_manifest", 3, kDigits, 10}, plan})) == "0123456789|abcdef");
  CHECK(objects(shared({{"mk_manifest", 3, kDigits + 10, 0}, plan})) == "|abcdef");
  CHECK(objects(shared({{"mk_manifest", 3, kDigits, 4}})) == no_plan);
  CHECK(objects(shared({plan})) == no_manifest);
  // These symbols lie before their section, beyond it, in another or a missing section, or in one without
  // bytes.
  CHECK(objects(shared({{"mk_manifest", 3, kDigits - 1, 2}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, 2, 3}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, kDigits, 11}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, kDigits + 11, 0}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, kDigits + 9, UINT64_MAX}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, UINT64_MAX, 2}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 4, kDigits, 3}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 5, kDigits, 1}, plan})) == no_manifest);
  CHECK(objects(shared({{"mk_manifest", 3, kDigits, 1}, plan}, SHT_NOBITS)) == no_manifest);
  // The kind of file decides how symbols are read.
  CHECK(objects(elf_of({{"mk_manifest", 3, kDigits, 3}, plan})) == no_manifest);
  const std::string whole = shared({{"mk_manifest", 3, kDigits + 2, 3}, plan});
  for (size_t size = sizeof(Elf64_Ehdr); size < whole.size(); ++size)
    CHECK(objects(whole.substr(0, size)).starts_with("f: error: truncated"));
}

TEST_CASE("a file with any byte changed is read within its bounds") {
  for (const Elf64_Half type : {ET_EXEC, ET_DYN}) {
    const uint64_t digits = type == ET_DYN ? kDigits : 0, letters = type == ET_DYN ? kLetters : 0;
    const std::string whole =
        elf_of({{"mk_manifest", 3, digits, 10}, {"mk_plan", 4, letters, 6}}, SHT_PROGBITS, type);
    for (size_t at = 0; at < whole.size(); ++at)
      for (const int flip : {1, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        const std::string found = objects(changed);
        CHECK((found.starts_with("f: error: ") || found.size() <= 2 * whole.size() + 1));
      }
  }
}

}  // namespace
}  // namespace mkrt
