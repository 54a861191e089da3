# Writes OUTPUT, a source that holds the files of FOLDERS as FUNCTION(), which HEADER declares.
list(TRANSFORM FOLDERS APPEND "/[a-z]*" OUTPUT_VARIABLE patterns)
file(GLOB files LIST_DIRECTORIES false ${patterns})
set(arrays "")
set(rows "")
set(number 0)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "constexpr char kFile${number}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", {kFile${number}, sizeof kFile${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[#include "@HEADER@"

namespace mkc {
namespace {

@arrays@
constexpr WebFile kFiles[] = {
@rows@};

}  // namespace

std::span<const WebFile> @FUNCTION@() {
  return kFiles;
}

}  // namespace mkc
]])
