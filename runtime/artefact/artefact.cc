#include "runtime/artefact/artefact.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "runtime/artefact/cubin.h"
#include "runtime/artefact/plan.h"
#include "runtime/artefact/seal.h"
#include "runtime/base/file.h"

namespace mkrt {

Status check_artefact(const Artefact& artefact, SealCheck seal) {
  if (Status status = check_manifest(artefact.manifest); !status.ok()) return status;
  if (seal == SealCheck::kRequired)
    if (Status status = check_seal(artefact); !status.ok()) return status;
  return check_plan(artefact.manifest, artefact.plan);
}

Result<Artefact> make_artefact(std::string_view text, std::span<const std::byte> plan,
                               std::span<const std::byte> image, SealCheck seal) {
  Result<Manifest> parsed = parse_manifest(text);
  if (!parsed.ok()) return parsed.error();
  Artefact artefact{std::move(parsed.value()), {plan.begin(), plan.end()}, {image.begin(), image.end()}};
  // The seal covers the parsed value, and other texts have this value, too.
  const std::string written = to_json(artefact.manifest);
  const bool plain = text.starts_with(written) && text.find_first_not_of(' ', written.size()) == text.npos;
  if (seal == SealCheck::kRequired && !plain) return Error{"manifest: error: is not as mkc writes it"};
  if (Status status = check_artefact(artefact, seal); !status.ok()) return status.error();
  return artefact;
}

Result<Artefact> read_artefact(std::span<const std::byte> bytes, const std::string& name, SealCheck seal) {
  const Result<CubinObjects> objects = find_objects(bytes, name);
  if (!objects.ok()) return objects.error();
  const auto [manifest, plan] = objects.value();
  const std::string_view text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  Result<Artefact> artefact = make_artefact(text, plan, bytes, seal);
  if (!artefact.ok()) return Error{fmt::format("{}: error: {}", name, artefact.error().message)};
  return artefact;
}

Result<Artefact> load_artefact(const std::string& path, SealCheck seal) {
  const Result<MappedFile> file = map_file(path);
  if (!file.ok()) return file.error();
  return read_artefact(file.value().bytes, path, seal);
}

}  // namespace mkrt
