add_subdirectory(attack/schedules)
mkc_test(attack_schedule_cases attack
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/../attack/schedules/cases_test.cc
  LIBS attack_schedules_lib)
