# Writes OUTPUT, a C++ file that holds the bitcode files FILES, and the names HOST_PARTS. The assembler reads the bytes of
# FILES when OUTPUT is compiled: as initialisers of arrays they took clang 12 s.
set(arrays "")
set(entries "")
foreach(file ${FILES})
  cmake_path(GET file STEM name)
  file(SIZE ${file} size)
  string(APPEND arrays "asm(R\"(.section .rodata
.balign 64
.hidden mkc_bytes_${name}
.globl mkc_bytes_${name}
mkc_bytes_${name}: .incbin \"${file}\"
.previous)\");
extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char mkc_bytes_${name}[${size}];
")
  string(APPEND entries "    {\"${name}\", mkc_bytes_${name}},\n")
endforeach()
list(JOIN HOST_PARTS "\", \"" host_parts)
file(WRITE ${OUTPUT} "#include \"codegen/bitcode.h\"

${arrays}
namespace mkc {

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
