set(misuse ${CMAKE_SOURCE_DIR}/tests/attack/c_misuse)
set(c_abi ${CMAKE_SOURCE_DIR}/runtime/c_abi.cc ${CMAKE_SOURCE_DIR}/runtime/c_abi_steps.cc)
mkc_test(c_misuse_test unit SOURCES ${misuse}/opened.cc ${misuse}/nulls.cc ${misuse}/orders.cc ${c_abi}
  LIBS mkc_tool fmt::fmt-header-only)
target_compile_definitions(c_misuse_test PRIVATE MKRT_VERSION="test")
