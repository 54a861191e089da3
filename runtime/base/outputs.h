// Files that a program writes must not be those that it reads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// Returns the files of a directory that may belong to a checkpoint, by the endings of their names. A
// directory that cannot be read has none.
std::vector<std::string> checkpoint_files(const std::string& directory);

// Refuses an output that is one of these files, also through links: "OUTPUT: error: would overwrite FILE,
// which WHY". An output of "" is none.
Status check_kept(const std::string& output, std::span<const std::string> files, const char* why);

// Refuses outputs that are one file, whether or not it exists. Outputs of "" are none. Devices and pipes may
// be both.
Status check_apart(const std::string& output, const std::string& other);

}  // namespace mkrt
