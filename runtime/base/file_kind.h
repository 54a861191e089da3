// What a file is that is not what was expected, by its first bytes and its name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mkrt {

// "a Git LFS pointer, …", with what to do about it; "" for bytes that begin like no known other format.
std::string foreign_format(std::span<const std::byte> bytes);

// The files of a directory that hold weights in a form which is not read, "pytorch_model.bin, a pickle: …";
// "" where there are none.
std::string foreign_weights(const std::string& directory);

}  // namespace mkrt
