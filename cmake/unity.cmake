# Unity builds: clang parses the headers of 64 sources once (docs/decisions/087-unity-builds.md). Names in unnamed
# namespaces must then differ within a library. Other builds than Release compile each source by itself.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(unity ON)
endif()
option(MKC_UNITY "Compile the sources of libraries together, 64 at a time" ${unity})

# mkc_unity(TARGETS…) makes the sources of targets be compiled together.
function(mkc_unity)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD "${MKC_UNITY}" UNITY_BUILD_BATCH_SIZE 64)
endfunction()
# mkc_apart_from_unity(SOURCES…) compiles sources by themselves: those whose names other sources have, too.
function(mkc_apart_from_unity)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
