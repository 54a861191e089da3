foreach(part command cache generation defaults output recognition settings simulation spills trace)
  add_test(NAME ${part}_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/error/${part}_test.py $<TARGET_FILE:mkc>
    ${CMAKE_SOURCE_DIR})
  set_tests_properties(${part}_test PROPERTIES LABELS error TIMEOUT 600)
endforeach()
add_test(NAME fit_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/fit_test.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:mkc>)
set_tests_properties(fit_test PROPERTIES LABELS unit TIMEOUT 120)
add_test(NAME loops_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/loops_test.py ${CMAKE_SOURCE_DIR})
set_tests_properties(loops_test PROPERTIES LABELS unit TIMEOUT 60)
