# Writes OUTPUT, a C++ file that holds the text of the family files FILES (paths relative to ROOT).
set(entries "")
foreach(file ${FILES})
  file(READ ${ROOT}/${file} text)
  string(APPEND entries "    {\"${file}\", R\"family(${text})family\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"frontend/families.h\"

namespace mkc {

std::span<const BuiltinFamily> builtin_families() {
  static constexpr BuiltinFamily kFamilies[] = {
${entries}  };
  return kFamilies;
}

}  // namespace mkc
")
