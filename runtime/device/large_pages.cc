#include "runtime/device/large_pages.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace mkrt {

// A mapping's lines in smaps begin with "BEGIN-END PERMISSIONS …" in hexadecimal. The other lines are
// "NAME: NUMBER kB" (proc(5)).
uint64_t large_page_bytes(const void* at) {
  constexpr std::string_view kName = "FilePmdMapped:";
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t begin = 0;
    const char* end = line.data() + line.size();
    const auto [stop, fault] = std::from_chars(line.data(), end, begin, 16);
    if (fault == std::errc() && stop != end && *stop == '-') {
      if (inside) return 0;
      inside = begin == reinterpret_cast<uint64_t>(at);
    } else if (inside && line.starts_with(kName)) {
      const size_t digits = line.find_first_not_of(' ', kName.size());
      uint64_t kib = 0;
      if (digits != line.npos) std::from_chars(line.data() + digits, end, kib);
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace mkrt
