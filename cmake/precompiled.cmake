# Precompiled headers: sets of libraries' headers that many sources include. A target takes a set by
# mkc_use_precompiled(SET TARGET). Sources still include what they use: builds other than Release check that, as they
# precompile nothing.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(precompiled ON)
endif()
option(MKC_PRECOMPILED "Precompile the headers of libraries" ${precompiled})
find_package(CLI11 2.1 REQUIRED)
find_package(doctest 2.4 REQUIRED)
find_package(LLVM 22.1 REQUIRED CONFIG)

set(standard <algorithm> <array> <bit> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional>
  <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view>
  <tuple> <unordered_map> <utility> <variant> <vector>)

# mkc_precompile(SET HEADERS… LIBS…) adds the target mkc_pch_SET.
#
# Sources use a set with any options of optimisation, which change nothing of what a header says. Clang would refuse them,
# and is told not to compare.
#
# ccache takes a precompiled header for its checksum file, which names the headers and their versions. The objects
# of one clone therefore serve another clone, whose precompiled header holds other paths. CMake's own options also include
# the header's text by its full path, which clang does not need and ccache would hash.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -fno-validate-pch -Xclang -include-pch -Xclang <PCH_FILE>)
function(mkc_precompile set)
  cmake_parse_arguments(arg "" "" "HEADERS;LIBS" ${ARGN})
  set(target mkc_pch_${set})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${target} PRIVATE mkc_options ${arg_LIBS})
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  list(TRANSFORM arg_HEADERS REPLACE "^(.+)$" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  string(REPLACE ">>" "$<ANGLE-R>>" arg_HEADERS "${arg_HEADERS}")
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  file(SHA256 ${CMAKE_SOURCE_DIR}/cmake/json_instances.h json_hash)
  set(versions "${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE} ${MKC_SANITIZE} ${MKC_FUZZ}"
    "fmt ${fmt_VERSION} json ${nlohmann_json_VERSION} ${json_hash} CLI11 ${CLI11_VERSION} doctest ${doctest_VERSION} LLVM ${LLVM_VERSION}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum
    CONTENT "${versions} ${arg_HEADERS}\n")
endfunction()

if(MKC_PRECOMPILED)
  set(json <cmake/json_instances.h>)
  add_library(mkc_json STATIC cmake/json_instances.cc)
  target_link_libraries(mkc_json PRIVATE mkc_options PUBLIC nlohmann_json::nlohmann_json)
  mkc_hot(mkc_json)  # start-up parses files of tokenizers
  mkc_precompile(base HEADERS ${standard} <fmt/format.h> ${json} LIBS fmt::fmt mkc_json)
  mkc_precompile(codegen HEADERS ${standard} <fmt/format.h> <llvm/IR/IRBuilder.h> <llvm/IR/Module.h> LIBS fmt::fmt)
  mkc_precompile(tests HEADERS ${standard} <fmt/format.h> ${json} <doctest/doctest.h> LIBS fmt::fmt mkc_json)
endif()

# mkc_use_precompiled(SET TARGETS…) makes targets use a set, and link what its headers declare as compiled elsewhere.
function(mkc_use_precompiled set)
  if(NOT MKC_PRECOMPILED)
    return()
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM mkc_pch_${set})
    get_target_property(libs mkc_pch_${set} LINK_LIBRARIES)
    if("mkc_json" IN_LIST libs)
      target_link_libraries(${target} PRIVATE mkc_json)
    endif()
  endforeach()
endfunction()
