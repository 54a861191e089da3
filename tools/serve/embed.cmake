# Writes OUTPUT, a source that holds the files of FOLDER as FUNCTION(), which HEADER declares.
file(GLOB files LIST_DIRECTORIES false RELATIVE ${FOLDER} ${FOLDER}/[a-z]*)
set(arrays "")
set(rows "")
set(number 0)
foreach(name ${files})
  file(READ ${FOLDER}/${name} hex HEX)
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
