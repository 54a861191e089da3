// The seal of an artefact shows whether any of it changed after mkc wrote it.
//
// A seal is two XXH3-128 hashes in the manifest. `code_seal` covers the image without its manifest. `seal`
// covers the plan, and the manifest with all but `seal` itself.
//
// The hashes detect damage, not forgery: whoever can write the file can also hash it anew (docs/trust.md).
#pragma once

#include "runtime/artefact/artefact.h"

namespace mkrt {

// Sets both hashes of the artefact's manifest.
void seal(Artefact& artefact);

// Returns the manifest's JSON as seal_cubin() needs it in a cubin. Blanks are room for a certificate and
// seals, and the text has whole words of 8 bytes.
std::string to_json_with_room(const Manifest& manifest);

// Seals the manifest and writes it over the one in the cubin. Errors: those of find_objects; the manifest has
// more bytes than the cubin has room for.
Result<std::vector<std::byte>> seal_cubin(std::vector<std::byte> cubin, Manifest manifest);

// Checks hashes and certificate. Errors: a seal is missing or differs. The certificate names another version
// of mkc, is not "proved", or covers less than the manifest's bounds.
Status check_seal(const Artefact& artefact);

}  // namespace mkrt
