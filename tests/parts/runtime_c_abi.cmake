set(c_abi ${CMAKE_SOURCE_DIR}/runtime/c_abi.cc ${CMAKE_SOURCE_DIR}/runtime/c_abi_steps.cc)
mkc_test(c_abi_test unit SOURCES unit/c_abi.cc ${c_abi} LIBS mkc_reference fmt::fmt-header-only)
target_compile_definitions(c_abi_test PRIVATE MKRT_VERSION="test")
if(NOT MKC_SANITIZE)  # a sanitizer's run time would have to be loaded first
  add_test(NAME c_abi_shared_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/c_abi_test.py
    $<TARGET_FILE:mkrt_shared> ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(c_abi_shared_test PROPERTIES LABELS unit TIMEOUT 120)
  add_test(NAME install_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/install_test.py ${CMAKE_BINARY_DIR}
    ${CMAKE_C_COMPILER})
  set_tests_properties(install_test PROPERTIES LABELS unit TIMEOUT 240)
  add_library(python_emulator SHARED unit/python_emulator.cc ${c_abi})
  target_link_libraries(python_emulator PRIVATE mkc_tool fmt::fmt-header-only)
  target_compile_definitions(python_emulator PRIVATE MKRT_VERSION="test")
  add_test(NAME python_mkrt_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/python_mkrt_test.py
    $<TARGET_FILE:python_emulator> ${CMAKE_SOURCE_DIR})
  set_tests_properties(python_mkrt_test PROPERTIES LABELS unit TIMEOUT 240)
endif()
