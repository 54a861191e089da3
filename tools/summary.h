// What mkc compile says of what it made.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/artefact.h"

namespace mkc {

// The model, its schedule and its PTX.
nlohmann::json summarise(const Compilation& compilation, const GpuBuild& build);

// Adds a cubin: its bytes, and the resources that the assembler's log names.
void add_cubin(nlohmann::json& summary, const Cubin& cubin, const Assembler& assembler);

// Lines for people: what the search found, the proof, and what was written where.
std::string to_string(const nlohmann::json& summary, const std::string& output, bool cached);

}  // namespace mkc
