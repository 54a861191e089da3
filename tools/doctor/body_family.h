// tools/gpu/bodies.yaml and bodies.json, as mkc was built with them: models of one body each.
#pragma once

namespace mkc {

extern const char* const kBodyFamily;
extern const char* const kBodyConfig;  // with BODY in place of the body's name

}  // namespace mkc
