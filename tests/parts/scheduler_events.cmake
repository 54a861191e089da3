mkc_test(scheduler_events_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_events.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_events_check.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_proof.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_lemmas.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_fuse.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_experts.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_split.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/scheduler_candidates.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/frontend_fixtures.cc
  LIBS mkc_scheduler mkc_frontend fmt::fmt)
