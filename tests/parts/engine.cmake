mkc_test(engine_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_check_batch.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_pages.cc
  LIBS mkrt fmt::fmt)
