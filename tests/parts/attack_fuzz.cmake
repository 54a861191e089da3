set(fuzz ${CMAKE_SOURCE_DIR}/tests/attack/fuzz)
add_library(fuzz_parsers STATIC EXCLUDE_FROM_ALL ${fuzz}/parsers.cc ${fuzz}/parse_models.cc ${fuzz}/parse_runtime.cc
  ${fuzz}/parse_artefact.cc ${fuzz}/mutate.cc ${CMAKE_SOURCE_DIR}/tools/batch_file.cc ${CMAKE_SOURCE_DIR}/tools/logprobs.cc
  ${CMAKE_SOURCE_DIR}/tools/token_text.cc)
target_compile_definitions(fuzz_parsers PRIVATE MKC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(fuzz_parsers
  PUBLIC mkc_options mkc_frontend mkc_scheduler mkc_text mkrt
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
mkc_test(fuzz_replay_test stress SOURCES ${fuzz}/replay.cc LIBS fuzz_parsers fmt::fmt)
set_tests_properties(fuzz_replay_test PROPERTIES TIMEOUT 300)

if(MKC_FUZZ)
  foreach(parser family model_file config generation machine mkir safetensors tokenizer manifest artefact trace batch_file)
    add_executable(fuzz_${parser} EXCLUDE_FROM_ALL ${fuzz}/libfuzzer.cc)
    target_compile_definitions(fuzz_${parser} PRIVATE MKC_PARSER="${parser}")
    target_link_libraries(fuzz_${parser} PRIVATE fuzz_parsers)
    target_link_options(fuzz_${parser} PRIVATE -fsanitize=fuzzer)
    list(APPEND fuzzers fuzz_${parser})
  endforeach()
  add_custom_target(fuzzers DEPENDS ${fuzzers})
endif()
