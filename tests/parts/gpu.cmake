add_test(NAME gpu_kit_test COMMAND ${CMAKE_SOURCE_DIR}/tests/unit/gpu_kit_test.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
set_tests_properties(gpu_kit_test PROPERTIES LABELS gpu TIMEOUT 900 SKIP_RETURN_CODE 77)
add_test(NAME gpu_driver_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/gpu_driver_test.py
  ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
set_tests_properties(gpu_driver_test PROPERTIES LABELS gpu TIMEOUT 120)
add_test(NAME gpu_bench_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/gpu_bench_test.py ${CMAKE_SOURCE_DIR})
set_tests_properties(gpu_bench_test PROPERTIES LABELS gpu TIMEOUT 120)
add_test(NAME render_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/render_test.py ${CMAKE_SOURCE_DIR})
set_tests_properties(render_test PROPERTIES LABELS unit TIMEOUT 120)
