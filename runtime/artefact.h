// What mkc compiled: the kernel's image with its manifest and plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/manifest.h"

namespace mkrt {

struct Artefact {
  Manifest manifest;
  std::vector<std::byte> plan;   // runtime/abi.h
  std::vector<std::byte> image;  // the cubin; empty for the emulator
};

// Reads a cubin's globals mk_manifest and mk_plan. Errors, beginning with `name`: not a 64-bit ELF,
// truncated, without these globals, and those of parse_manifest and check_plan.
Result<Artefact> read_artefact(std::span<const std::byte> cubin, const std::string& name);

// The same of a file. Errors: it is unreadable, and those of read_artefact.
Result<Artefact> load_artefact(const std::string& path);

// The plan is whole and one of this manifest: its sizes, and every index in it.
Status check_plan(const Manifest& manifest, std::span<const std::byte> plan);

}  // namespace mkrt
