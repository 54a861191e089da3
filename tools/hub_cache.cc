#include "tools/hub_cache.h"

#include <algorithm>
#include <cstdlib>

namespace mkc {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_of_names(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' &&
         std::all_of(part.begin(), part.end(), is_of_names);
}

}  // namespace

std::string hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = variable(name); !folder.empty()) return folder;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty())
    return caches + "/huggingface/hub";
  return variable("HOME") + "/.cache/huggingface/hub";
}

std::string hub_folder(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return is_part(name) ? "models--" + std::string(name) : "";
  const std::string_view org = name.substr(0, slash), model = name.substr(slash + 1);
  if (!is_part(org) || !is_part(model)) return "";
  return "models--" + std::string(org) + "--" + std::string(model);
}

}  // namespace mkc
