add_test(NAME command_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/error/command_test.py $<TARGET_FILE:mkc> ${CMAKE_SOURCE_DIR})
set_tests_properties(command_test PROPERTIES LABELS error TIMEOUT 600)
