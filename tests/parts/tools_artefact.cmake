add_test(NAME artefact_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/error/artefact_test.py $<TARGET_FILE:mkc>
  ${CMAKE_SOURCE_DIR})
set_tests_properties(artefact_test PROPERTIES LABELS error TIMEOUT 600)
add_test(NAME attack_reports_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/attack/render_reports --check)
set_tests_properties(attack_reports_test PROPERTIES LABELS unit TIMEOUT 60)
