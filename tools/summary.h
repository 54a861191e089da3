// mkc compile prints a summary of its result.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/artefact.h"

namespace mkc {

// Returns a summary of the model, its schedule and its PTX.
nlohmann::json summarise(const Compilation& compilation, const GpuBuild& build);

// Adds a cubin to the summary: its size, and the resources from the assembler's log.
void add_cubin(nlohmann::json& summary, const Cubin& cubin, const Assembler& assembler);

// Returns the summary as lines for people: findings of the search, the proof, and the file written.
std::string to_string(const nlohmann::json& summary, const std::string& output, bool cached);

}  // namespace mkc
