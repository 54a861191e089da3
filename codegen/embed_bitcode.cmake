# Writes OUTPUT, a C++ file that holds the bitcode files FILES, and the names HOST_PARTS. The bytes of FILES are read
# when OUTPUT is compiled. Their hashes stand in it because ccache compares the text of a file, not what it embeds.
set(arrays "")
set(entries "")
foreach(file ${FILES})
  cmake_path(GET file STEM name)
  file(SHA256 ${file} hash)
  string(APPEND arrays "// ${hash}\nconstexpr unsigned char k_${name}[] = {\n#embed \"${file}\"\n};\n")
  string(APPEND entries "    {\"${name}\", k_${name}},\n")
endforeach()
list(JOIN HOST_PARTS "\", \"" host_parts)
file(WRITE ${OUTPUT} "#include \"codegen/bitcode.h\"

#pragma clang diagnostic ignored \"-Wc23-extensions\"

namespace mkc {
namespace {
${arrays}}  // namespace

std::span<const Bitcode> device_bitcode() {
  static constexpr Bitcode kFiles[] = {
${entries}  };
  return kFiles;
}

std::vector<std::string> host_parts() {
  return {\"${host_parts}\"};
}

}  // namespace mkc
")
