#include "tests/attack/c_misuse/opened.h"

#include "tools/native.h"

namespace mkc::attack {

namespace {

Compilation opened_for(const char* target) {
  ModelRequest request{kCheckpoint, {}, ""};
  request.options.target = target;
  Result<Compilation> c = open_model(request, true);
  REQUIRE(c.ok());
  return std::move(c.value());
}

}  // namespace

const Compiled& compiled() {
  static const Compiled one = [] {
    Compilation c = opened_for(kThisProcessor);
    c.quick = true;
    const Result<BuiltCubin> object = build_shared_object(c, {});
    REQUIRE_MESSAGE(object.ok(), object.error().message);
    Compiled made{mkrt::read_artefact(object.value().bytes, "compiled").value(), ""};
    made.manifest = mkrt::to_json(made.artefact.manifest);
    return made;
  }();
  return one;
}

const Emulated& emulated() {
  static const Emulated one = [] {
    Compilation c = opened_for("emulator");
    REQUIRE(run_passes(c).ok());
    Emulated made{std::move(build_for_emulator(c).value()), "", nullptr, nullptr};
    made.manifest = mkrt::to_json(made.host.artefact.manifest);
    made.kernel = reinterpret_cast<Kernel>(made.host.kernel.entries.step);
    made.pack = reinterpret_cast<Pack>(made.host.kernel.entries.pack);
    return made;
  }();
  return one;
}

mkrt_session* open_session(mkrt_device* device) {
  const Compiled& c = compiled();
  const auto& [manifest, plan, image] = c.artefact;
  return mkrt_open_session_from_memory(device, c.manifest.data(), c.manifest.size(), plan.data(), plan.size(),
                                       image.data(), image.size(), kCheckpoint.c_str());
}

mkrt_session* open_emulated_session(mkrt_device* device) {
  const Emulated& c = emulated();
  const std::vector<std::byte>& plan = c.host.artefact.plan;
  return mkrt_open_session_from_memory(device, c.manifest.data(), c.manifest.size(), plan.data(), plan.size(),
                                       nullptr, 0, kCheckpoint.c_str());
}

void refused(bool failed, const std::string& expected, const char* call) {
  CAPTURE(std::string(call));
  CHECK(failed);
  CHECK(std::string(mkrt_error()) == expected);
}

}  // namespace mkc::attack
