mkc_test(scheduler_place_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_machine.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_native.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_place.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_prove.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_prove_random.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_programs.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_rules.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_search.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_simulate.cc
  LIBS mkc_scheduler)
