mkc_test(engine_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_check_batch.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_pages.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_random.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/fake_model.cc
  LIBS mkrt fmt::fmt)
mkc_test(batch_file_test unit
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../unit/batch_file.cc
    ${CMAKE_CURRENT_LIST_DIR}/../unit/fake_model.cc
    ${CMAKE_SOURCE_DIR}/tools/batch_file.cc
    ${CMAKE_SOURCE_DIR}/tools/logprobs.cc
    ${CMAKE_SOURCE_DIR}/tools/token_text.cc
  LIBS mkrt mkc_text fmt::fmt nlohmann_json::nlohmann_json)
mkc_test(engine_memory_test unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/../unit/engine_memory.cc LIBS mkrt)
