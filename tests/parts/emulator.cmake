mkc_test(emulator_test unit
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_barriers.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_copies.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_counters.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_disturbance.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_guard.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_race.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_spoil.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_warp.cc
    ${CMAKE_SOURCE_DIR}/tests/unit/emulator_warpgroup.cc
  LIBS mkrt_emulator)
