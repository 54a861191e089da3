mkc_test(codegen_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/codegen_plan.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/codegen_cubin.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_fixtures.cc
  LIBS mkc_codegen mkc_scheduler mkc_frontend fmt::fmt)
