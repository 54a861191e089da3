add_library(mkc_reference STATIC EXCLUDE_FROM_ALL reference/model.cc reference/checkpoint.cc e2e/pipeline.cc)
target_link_libraries(mkc_reference PUBLIC mkc_options mkc_tool nlohmann_json::nlohmann_json)
target_compile_options(mkc_reference PRIVATE -O2)
mkc_test(e2e_families_test e2e SOURCES e2e/families.cc LIBS mkc_reference)
mkc_test(e2e_trace_test e2e SOURCES e2e/trace.cc LIBS mkc_reference)
mkc_test(e2e_test e2e SOURCES e2e/fixtures.cc e2e/determinism.cc e2e/batches.cc e2e/engine.cc e2e/experts.cc
  e2e/long_contexts.cc e2e/sampling.cc e2e/steps.cc LIBS mkc_reference)
