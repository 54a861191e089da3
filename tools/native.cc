#include "tools/native.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <string>

#include "codegen/cache.h"
#include "codegen/targets.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"

namespace mkc {

namespace {

constexpr size_t kMaxText = 1 << 20;  // bytes of a file of measurements

std::string file_name(const std::string& name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return out;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::string measured_path(const mkrt::DeviceFacts& facts) {
  const std::string folder = default_cache().folder;
  if (folder.empty()) return "";
  return fmt::format("{}/devices/{}-{}.json", folder, file_name(facts.name),
                     facts.uuid.empty() ? "0" : facts.uuid);
}

std::string measured_path(const mkrt::ProcessorFacts& facts) {
  const std::string folder = default_cache().folder;
  if (folder.empty()) return "";
  return fmt::format("{}/devices/{}-cpu{}.json", folder, file_name(facts.model),
                     mkrt::ranges_text(facts.processors));
}

MeasuredOn this_processor(const mkrt::ProcessorFacts& facts) {
  return {facts.name, facts.model, mkrt::ranges_text(facts.processors), version()};
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

namespace {

// Says why a file that was made elsewhere is left out.
std::string made_elsewhere(const MeasuredOn& file, const MeasuredOn& here, const std::string& path) {
  const auto differs = [&](const std::string& a, const std::string& b, const char* what) {
    return a == b ? "" : fmt::format("{} is for {} {}, this is {}", path, what, a, b);
  };
  for (const std::string& why :
       {differs(file.device, here.device, "processor"), differs(file.model, here.model, "model"),
        differs(file.processors, here.processors, "processors"), differs(file.mkc, here.mkc, "mkc")})
    if (!why.empty()) return why;
  return "";
}

}  // namespace

Result<NativeMachine> processor_machine(const std::string& target, bool ignore_measured) {
  if (ignore_measured) return nominal_processor(target, "--ignore-measured");
  const mkrt::ProcessorFacts facts = mkrt::ask_processor();
  if (target > facts.target) return nominal_processor(target, "this processor does not run it");
  const std::string path = measured_path(facts);
  if (path.empty() || !exists(path))
    return nominal_processor(target, "mkc doctor --measure measures this processor");
  const mkrt::Result<std::string> text = mkrt::read_text(path, kMaxText);
  if (!text.ok()) return text.error();
  const auto with_path = [&](const Error& error) {
    return Error{fmt::format("{}\n{} holds what mkc doctor measured: --ignore-measured leaves it out",
                             error.message, path)};
  };
  const Result<MeasuredOn> made = measured_on(text.value());
  if (!made.ok()) return with_path(made.error());
  if (const std::string why = made_elsewhere(made.value(), this_processor(facts), path); !why.empty())
    return nominal_processor(target, why);
  Result<NativeMachine> machine = machine_of_processor(text.value(), target);
  return machine.ok() ? std::move(machine) : with_path(machine.error());
}

Result<NativeMachine> machine_of(const std::string& name, const std::string& target, bool ignore_measured) {
  if (name.empty() && target.starts_with(kThisProcessor)) return processor_machine(target, ignore_measured);
  if (!name.empty() && exists(name)) {
    const mkrt::Result<std::string> text = mkrt::read_text(name, kMaxText);
    if (text.ok() && is_measured(text.value())) {
      Result<NativeMachine> machine = machine_of_processor(text.value(), target);
      return machine.ok() ? std::move(machine) : Error{fmt::format("{}: {}", name, machine.error().message)};
    }
  }
  Result<Machine> machine = name.empty() ? machine_for_target(target) : load_machine(name);
  if (!machine.ok()) return machine.error();
  return NativeMachine{std::move(machine.value()), ""};
}

}  // namespace mkc
