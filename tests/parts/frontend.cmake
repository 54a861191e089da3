set(frontend_fixtures ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_fixtures.cc)
mkc_test(frontend_test unit
  SOURCES
    ${frontend_fixtures}
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_families.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_experts.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_formula.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_rope.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_windows.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_checkpoint.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_docs.cc
  LIBS mkc_frontend nlohmann_json::nlohmann_json fmt::fmt)
mkc_test(frontend_error_test error
  SOURCES
    ${frontend_fixtures}
    ${CMAKE_CURRENT_LIST_DIR}/../error/frontend_config.cc
    ${CMAKE_CURRENT_LIST_DIR}/../error/frontend_experts.cc
    ${CMAKE_CURRENT_LIST_DIR}/../error/frontend_model_file.cc
  LIBS mkc_frontend fmt::fmt)
