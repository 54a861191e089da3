mkc_test(c_abi_test unit SOURCES unit/c_abi.cc ${CMAKE_SOURCE_DIR}/runtime/c_abi.cc LIBS mkc_reference fmt::fmt-header-only)
target_compile_definitions(c_abi_test PRIVATE MKRT_VERSION="test")
if(NOT MKC_SANITIZE)  # a sanitizer's run time would have to be loaded first
  add_test(NAME c_abi_shared_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/c_abi_test.py
    $<TARGET_FILE:mkrt_shared> ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(c_abi_shared_test PROPERTIES LABELS unit TIMEOUT 120)
endif()
