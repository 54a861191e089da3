// The seal of an artefact: whether anything of it has changed since mkc wrote it.
//
// Two hashes (XXH3-128) in the manifest: `code_seal` of the image without its manifest, `seal` of the plan
// and of the manifest with all but `seal` itself. They tell damage, not forgery: whoever can write the file
// can hash it anew (docs/trust.md).
#pragma once

#include "runtime/artefact/artefact.h"

namespace mkrt {

// Fills in both hashes.
void seal(Artefact& artefact);

// Puts the manifest into a cubin in place of the one it has, both sealed. Errors: those of find_objects; the
// manifest takes more bytes than there are.
Result<std::vector<std::byte>> seal_cubin(std::vector<std::byte> cubin, Manifest manifest);

// Errors: a hash differs; the certificate does not say that the schedule was proved, or not for these bounds.
Status check_seal(const Artefact& artefact);

}  // namespace mkrt
