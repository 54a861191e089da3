#include "tools/serve/web_files.h"

#include <algorithm>
#include <utility>

#include "ir/diag.h"

namespace mkc {
namespace {

constexpr std::string_view kIndex = "index.html", kFolder = "/page/";

constexpr std::pair<std::string_view, std::string_view> kContentTypes[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

}  // namespace

const WebFile* find_web_file(std::string_view path) {
  if (path != "/" && (!path.starts_with(kFolder) || path.substr(kFolder.size()) == kIndex)) return nullptr;
  const std::string_view name = path == "/" ? kIndex : path.substr(kFolder.size());
  const std::span<const WebFile> files = web_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string_view content_type_of(const WebFile& file) {
  for (const auto& [ending, type] : kContentTypes)
    if (file.name.ends_with(ending)) return type;
  MKC_BUG("a file of the web page has no content type");
}

}  // namespace mkc
