#include "tools/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/op_graph.h"
#include "runtime/artefact/manifest.h"
#include "tools/passes.h"

namespace mkc {

std::string stamps_of_copies(const CompileRequest& request, const mkrt::Checkpoint& checkpoint) {
  std::set<std::string> files;
  const Result<Scope> scope = request_scope(request);
  if (!scope.ok()) return "";
  for (const IgnoreDecl& ignore : request.family.ignore) {
    const Result<bool> applies = is_ignored(ignore, scope.value());
    if (!applies.ok() || !applies.value()) continue;
    const mkrt::StoredTensor* const copy = checkpoint.find(ignore.name);
    const mkrt::StoredTensor* const of = checkpoint.find(ignore.copy_of);
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

Status check_copies_once(const CompileRequest& request, const mkrt::Checkpoint& checkpoint,
                         const Cache& cache) {
  const std::string stamps = stamps_of_copies(request, checkpoint);
  if (stamps.empty()) return {};
  const std::string name = mkrt::hash_hex(request.config.source.text + "\n" +
                                          request.family.document.source.text + "\n" + stamps) +
                           ".same";
  if (find_cached(cache, name)) return {};
  MKC_TRY_STATUS(check_copies(request, tensors_of(checkpoint)));
  keep_cached(cache, name, {});
  return {};
}

}  // namespace mkc
