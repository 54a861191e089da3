add_test(NAME gpu_kit_test COMMAND ${CMAKE_SOURCE_DIR}/tests/unit/gpu_kit_test.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
set_tests_properties(gpu_kit_test PROPERTIES LABELS gpu TIMEOUT 600 SKIP_RETURN_CODE 77)
