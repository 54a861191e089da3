# The story generator and checker of tools/train_tiny need only Python itself.
add_test(NAME train_tiny_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/unit/train_tiny_test.py)
set_tests_properties(train_tiny_test PROPERTIES LABELS unit TIMEOUT 60)
