#include <dlfcn.h>
#include <fmt/format.h>

#include "codegen/assembler.h"

namespace mkc {
namespace {

// The declarations follow the "nvJitLink API Reference" of the CUDA documentation.
using Handle = void*;
constexpr int kInputPtx = 2;  // NVJITLINK_INPUT_PTX

struct Library {
  int (*version)(unsigned* major, unsigned* minor);
  int (*create)(Handle*, uint32_t count, const char** options);
  int (*destroy)(Handle*);
  int (*add_data)(Handle, int type, const void* data, size_t bytes, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*error_log_size)(Handle, size_t*);
  int (*error_log)(Handle, char*);
  int (*info_log_size)(Handle, size_t*);
  int (*info_log)(Handle, char*);
};

// Returns the text of one of a link's two logs.
std::string read_log(Handle link, int (*size_of)(Handle, size_t*), int (*read)(Handle, char*)) {
  size_t size = 0;
  if (size_of(link, &size) != 0 || size == 0) return {};
  std::string text(size, '\0');
  if (read(link, text.data()) != 0) return {};
  return text.substr(0, text.find('\0'));
}

class NvJitLink final : public Assembler {
 public:
  NvJitLink(std::string path, const Library& library, unsigned major, unsigned minor)
      : path_(std::move(path)), library_(library), major_(major), minor_(minor) {}

  std::string name() const override { return fmt::format("nvJitLink {}.{} ({})", major_, minor_, path_); }

  Result<Cubin> assemble(const std::string& ptx, const Target& target) const override {
    const std::string arch = "-arch=" + target.name;
    const char* options[] = {arch.c_str(), "-O3", "-verbose"};
    Handle link = nullptr;
    if (const int result = library_.create(&link, 3, options); result != 0)
      return Error{fmt::format("error: {} refuses the target {} (result {})", name(), target.name, result)};
    Result<Cubin> cubin = link_ptx(link, ptx);
    library_.destroy(&link);
    return cubin;
  }

 private:
  Result<Cubin> link_ptx(Handle link, const std::string& ptx) const {
    int result = library_.add_data(link, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel.ptx");
    if (result == 0) result = library_.complete(link);
    size_t size = 0;
    if (result == 0) result = library_.cubin_size(link, &size);
    Cubin cubin;
    cubin.bytes.resize(size);
    if (result == 0) result = library_.cubin(link, cubin.bytes.data());
    if (result != 0)
      return Error{fmt::format("error: {} failed (result {}):\n{}", name(), result,
                               read_log(link, library_.error_log_size, library_.error_log))};
    cubin.log = read_log(link, library_.info_log_size, library_.info_log);
    return cubin;
  }

  std::string path_;
  Library library_;
  unsigned major_, minor_;
};

}  // namespace

Result<std::unique_ptr<Assembler>> open_nvjitlink(const std::string& path) {
  // The library is never closed, because it keeps threads of its own.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return Error{fmt::format("cannot be opened: {}", dlerror())};
  Library library{};
  std::string missing;
  const auto find = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(handle, name));
    if (!member && missing.empty()) missing = name;
  };
  find(library.version, "nvJitLinkVersion");
  find(library.create, "nvJitLinkCreate");
  find(library.destroy, "nvJitLinkDestroy");
  find(library.add_data, "nvJitLinkAddData");
  find(library.complete, "nvJitLinkComplete");
  find(library.cubin_size, "nvJitLinkGetLinkedCubinSize");
  find(library.cubin, "nvJitLinkGetLinkedCubin");
  find(library.error_log_size, "nvJitLinkGetErrorLogSize");
  find(library.error_log, "nvJitLinkGetErrorLog");
  find(library.info_log_size, "nvJitLinkGetInfoLogSize");
  find(library.info_log, "nvJitLinkGetInfoLog");
  if (!missing.empty()) return Error{fmt::format("has no {}", missing)};
  unsigned major = 0, minor = 0;
  if (library.version(&major, &minor) != 0 || std::pair(major, minor) < std::pair(12u, 8u))
    return Error{fmt::format("is version {}.{}, expected 12.8 or newer", major, minor)};
  return std::unique_ptr<Assembler>(std::make_unique<NvJitLink>(path, library, major, minor));
}

}  // namespace mkc
