add_test(NAME command_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/error/command_test.py $<TARGET_FILE:mkc> ${CMAKE_SOURCE_DIR})
set_tests_properties(command_test PROPERTIES LABELS error TIMEOUT 600)
add_test(NAME fit_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/fit_test.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:mkc>)
set_tests_properties(fit_test PROPERTIES LABELS unit TIMEOUT 120)
