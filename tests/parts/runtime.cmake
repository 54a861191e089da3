mkc_test(runtime_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/mkrun_samples.cc
    ${CMAKE_SOURCE_DIR}/tools/mkrun/samples.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/emulator_device.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_sample.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_file.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_manifest.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_safetensors.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_plan.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_seal.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_session.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_session_streams.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_trace.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/runtime_weights.cc
  LIBS mkrt fmt::fmt nlohmann_json::nlohmann_json)
