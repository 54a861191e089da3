# Writes OUTPUT, a C++ file that holds the bitcode files FILES.
set(arrays "")
set(entries "")
foreach(file ${FILES})
  cmake_path(GET file STEM name)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char k_${name}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${name}\", k_${name}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"codegen/bitcode.h\"

namespace mkc {
namespace {
${arrays}}  // namespace

std::span<const Bitcode> device_bitcode() {
  static constexpr Bitcode kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace mkc
")
