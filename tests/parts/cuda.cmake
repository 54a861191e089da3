# The CUDA device against a driver that records its calls.
add_library(fake_cuda SHARED ${CMAKE_SOURCE_DIR}/tests/fixtures/fake_cuda/libcuda.c)
set_target_properties(fake_cuda PROPERTIES
  OUTPUT_NAME cuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
mkc_test(runtime_cuda_test unit SOURCES unit/runtime_cuda.cc LIBS mkrt fmt::fmt)
add_dependencies(runtime_cuda_test fake_cuda)
set_tests_properties(runtime_cuda_test PROPERTIES
  ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fake_cuda")
