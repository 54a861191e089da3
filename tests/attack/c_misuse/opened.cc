#include "tests/attack/c_misuse/opened.h"

namespace mkc::attack {

const Compiled& compiled() {
  static const Compiled one = [] {
    ModelRequest request{kCheckpoint, {}, ""};
    request.options.target = "emulator";
    Result<Compilation> c = open_model(request, true);
    REQUIRE(c.ok());
    REQUIRE(run_passes(c.value()).ok());
    Compiled made{std::move(build_for_emulator(c.value()).value()), "", nullptr, nullptr};
    made.manifest = mkrt::to_json(made.host.artefact.manifest);
    made.kernel = reinterpret_cast<Kernel>(made.host.kernel.entries.step);
    made.pack = reinterpret_cast<Pack>(made.host.kernel.entries.pack);
    return made;
  }();
  return one;
}

mkrt_session* open_session(mkrt_device* device) {
  const Compiled& c = compiled();
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
