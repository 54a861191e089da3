#include "tools/hub_cache.h"

#include <algorithm>

#include "runtime/base/environment.h"

namespace mkc {
namespace {

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
    if (const std::string folder = mkrt::environment(name); !folder.empty()) return folder;
  if (const std::string home = mkrt::environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string caches = mkrt::environment("XDG_CACHE_HOME"); !caches.empty())
    return caches + "/huggingface/hub";
  return mkrt::environment("HOME") + "/.cache/huggingface/hub";
}

std::string hub_folder(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return is_part(name) ? "models--" + std::string(name) : "";
  const std::string_view org = name.substr(0, slash), model = name.substr(slash + 1);
  if (!is_part(org) || !is_part(model)) return "";
  return "models--" + std::string(org) + "--" + std::string(model);
}

}  // namespace mkc
