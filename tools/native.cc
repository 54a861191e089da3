#include "tools/native.h"

#include <fmt/format.h>

#include <cctype>
#include <string>

#include "codegen/cache.h"
#include "codegen/targets.h"
#include "runtime/base/file.h"

namespace mkc {

std::string measured_path(const mkrt::DeviceFacts& facts) {
  const std::string folder = default_cache().folder;
  if (folder.empty()) return "";
  std::string name;
  for (const char c : facts.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}/devices/{}-{}.json", folder, name, facts.uuid.empty() ? "0" : facts.uuid);
}

Result<NativeMachine> native_machine(bool ignore_measured) {
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error();
  const Result<Target> target = target_of_capability(facts.value().major, facts.value().minor);
  if (!target.ok()) return Error{fmt::format("{}: error: {}", facts.value().name, target.error().message)};
  std::string measured;
  if (const std::string path = measured_path(facts.value()); !ignore_measured && !path.empty())
    if (const mkrt::Result<mkrt::MappedFile> file = mkrt::map_file(path); file.ok())
      measured.assign(reinterpret_cast<const char*>(file.value().bytes.data()), file.value().bytes.size());
  Result<NativeMachine> native = machine_of_device(facts.value(), target.value().name, measured);
  if (!native.ok() && !measured.empty())
    return Error{fmt::format("{}\n{} holds what mkc doctor measured: --ignore-measured leaves it out",
                             native.error().message, measured_path(facts.value()))};
  return native;
}

}  // namespace mkc
