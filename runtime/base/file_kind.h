// File formats that mkc does not read are recognised by first bytes or by name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mkrt {

// Returns the format of the bytes and what to do about it, such as "a Git LFS pointer, …". Returns "" for
// bytes of no known other format.
std::string foreign_format(std::span<const std::byte> bytes);

// Returns the first file of a directory, by name, that holds weights which are not read: "pytorch_model.bin,
// …". The text behind the name says what the file is, or what to do. Returns "" where there is none.
std::string foreign_weights(const std::string& directory);

}  // namespace mkrt
