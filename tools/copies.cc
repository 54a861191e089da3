#include "tools/copies.h"

#include <fmt/format.h>

#include <set>

namespace mkc {

std::vector<DeclaredCopy> copies_of(const CompileRequest& request) {
  Result<std::vector<DeclaredCopy>> copies = declared_copies(request);
  return copies.ok() ? std::move(copies.value()) : std::vector<DeclaredCopy>();
}

std::string stamps_of_copies(const CompileRequest& request, const mkrt::Checkpoint& checkpoint) {
  std::set<std::string> files;
  for (const DeclaredCopy& declared : copies_of(request)) {
    const mkrt::StoredTensor* const copy = checkpoint.find(declared.name);
    const mkrt::StoredTensor* const of = checkpoint.find(declared.of);
    if (copy && of) files.insert({copy->file, of->file});
  }
  std::string text;
  for (const mkrt::MappedFile& file : checkpoint.files) {
    const mkrt::FileStamp& s = file.stamp;
    if (files.contains(file.path))
      text += fmt::format("{} {} {} {} {}\n", file.path, s.inode, s.bytes, s.modified_ns, s.changed_ns);
  }
  return text;
}

}  // namespace mkc
