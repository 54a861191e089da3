mkc_test(ir_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_expr.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_form.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_diag.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_text.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_docs.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_domain.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_dot.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_levels.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/ir_random.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_fixtures.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_programs.cc
  LIBS mkc_scheduler mkc_frontend mkc_ir fmt::fmt)
