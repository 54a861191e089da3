// The texts of tools/gpu/bodies.yaml and bodies.json are embedded when mkc is built. The files describe
// models of one body each.
#pragma once

namespace mkc {

extern const char* const kBodyFamily;
extern const char* const kBodyConfig;  // has BODY in place of the body's name

}  // namespace mkc
