# How much targets are optimised. Release builds have -O1 where nothing is said (docs/decisions/101-hot-code.md).
set(MKC_HOT_OPTIONS -O2)
# mkc_hot(TARGETS…) optimises code that takes much of a program's time, in every build.
function(mkc_hot)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${MKC_HOT_OPTIONS}>)
  endforeach()
endfunction()
# mkc_not_hot(TARGETS…) inlines little in code that takes little of a program's time.
function(mkc_not_hot)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-mllvm -inline-threshold=5>)
  endforeach()
endfunction()
