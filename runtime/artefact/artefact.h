// An artefact is the kernel's image that mkc compiled, with its manifest and plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artefact/manifest.h"

namespace mkrt {

struct Artefact {
  Manifest manifest;
  std::vector<std::byte> plan;   // runtime/abi/abi.h
  std::vector<std::byte> image;  // the cubin or shared object; empty for the emulator
};

// SealCheck tells whether an artefact must be sealed and certified (runtime/artefact/seal.h). Bounds are
// checked in both cases.
enum class SealCheck : uint8_t { kRequired, kSkipped };

// Returns an artefact made of its parts. Errors: those of parse_manifest and check_artefact. A required seal
// also refuses a manifest text other than that of to_json with blanks behind it.
Result<Artefact> make_artefact(std::string_view manifest, std::span<const std::byte> plan,
                               std::span<const std::byte> image, SealCheck seal = SealCheck::kRequired);

// Reads the globals mk_manifest and mk_plan of a cubin or shared object. Errors begin with `name`: those of
// find_objects and make_artefact.
Result<Artefact> read_artefact(std::span<const std::byte> bytes, const std::string& name,
                               SealCheck seal = SealCheck::kRequired);

// Reads an artefact from a file. Errors: the file is unreadable, and those of read_artefact.
Result<Artefact> load_artefact(const std::string& path, SealCheck seal = SealCheck::kRequired);

// Tells whether an artefact may run. Errors: those of check_manifest, check_seal and check_plan, in this
// order.
Status check_artefact(const Artefact& artefact, SealCheck seal = SealCheck::kRequired);

}  // namespace mkrt
