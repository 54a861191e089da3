mkc_test(engine_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_check_batch.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_pages.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_random.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/fake_model.cc
  LIBS mkrt fmt::fmt)
