#include "tools/build_ids.h"

#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <span>

namespace mkc {
namespace {

constexpr size_t align_note(size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

// Returns the build id among the notes of a segment, or "" if there is none. The layout of notes is from the
// System V ABI and the GNU linker.
std::string build_id(std::span<const unsigned char> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    const size_t name = sizeof(note), id = name + align_note(note.n_namesz),
                 end = id + align_note(note.n_descsz);
    if (end > notes.size()) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(&notes[name], "GNU", 4) == 0) {
      std::string text;
      for (const unsigned char byte : notes.subspan(id, note.n_descsz)) text += fmt::format("{:02x}", byte);
      return text;
    }
    notes = notes.subspan(end);
  }
  return "";
}

struct Ids {
  std::string library;  // path of libmkc, if this code is in it
  std::string lines;
  bool first = true, whole = true;
};

// Tells whether the output depends on an object of a process that loaded libmkc. Such a process has objects
// of its own, which differ from run to run.
bool is_compiler(const Ids& ids, const char* path) {
  return ids.library == path || std::strstr(path, "libLLVM");
}

// Returns the path of the library that holds this code, or "" if the program itself does.
std::string own_library() {
  const char* library = "";  // the program's path is empty among the loaded objects
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* path) {
        const auto here = reinterpret_cast<uintptr_t>(&own_library);
        for (const ElfW(Phdr) & part : std::span(object->dlpi_phdr, object->dlpi_phnum))
          if (here - object->dlpi_addr - part.p_vaddr < part.p_memsz)
            *static_cast<const char**>(path) = object->dlpi_name;
        return 0;
      },
      &library);
  return library;
}

// Adds a line for a loaded object. The first object is the program. The vdso is left out, because mkc's
// output does not depend on it.
int add_object(dl_phdr_info* object, size_t, void* into) {
  Ids& ids = *static_cast<Ids*>(into);
  if (!ids.library.empty() && !is_compiler(ids, object->dlpi_name)) return 0;
  std::string id;
  for (const ElfW(Phdr) & part : std::span(object->dlpi_phdr, object->dlpi_phnum))
    if (part.p_type == PT_NOTE && id.empty())
      id = build_id({reinterpret_cast<const unsigned char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz});
  if (ids.first) ids.whole = !id.empty();
  ids.first = false;
  if (!std::strstr(object->dlpi_name, "vdso")) ids.lines += fmt::format("{} {}\n", object->dlpi_name, id);
  return 0;
}

}  // namespace

std::string build_ids() {
  Ids ids;
  ids.library = own_library();
  dl_iterate_phdr(add_object, &ids);
  return ids.whole ? ids.lines : "";
}

}  // namespace mkc
