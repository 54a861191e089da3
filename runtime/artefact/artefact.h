// What mkc compiled: the kernel's image with its manifest and plan.
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
  std::vector<std::byte> image;  // the cubin; empty for the emulator
};

// Whether an artefact must be sealed and certified (runtime/artefact/seal.h). Bounds are checked in any case.
enum class SealCheck : uint8_t { kRequired, kSkipped };

// An artefact of its parts. Errors: those of parse_manifest and check_artefact; where a seal is required,
// text that is not as to_json writes it, up to blanks behind it.
Result<Artefact> make_artefact(std::string_view manifest, std::span<const std::byte> plan,
                               std::span<const std::byte> image, SealCheck seal = SealCheck::kRequired);

// Reads a cubin's globals mk_manifest and mk_plan. Errors, beginning with `name`: those of find_objects
// and make_artefact.
Result<Artefact> read_artefact(std::span<const std::byte> cubin, const std::string& name,
                               SealCheck seal = SealCheck::kRequired);

// The same of a file. Errors: it is unreadable, and those of read_artefact.
Result<Artefact> load_artefact(const std::string& path, SealCheck seal = SealCheck::kRequired);

// Whether it may run. Errors: those of check_manifest, check_seal and check_plan, in this order.
Status check_artefact(const Artefact& artefact, SealCheck seal = SealCheck::kRequired);

}  // namespace mkrt
