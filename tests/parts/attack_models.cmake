# Random models and settings: long runs by hand, a slice as a test.
set(attack ${CMAKE_CURRENT_LIST_DIR}/../attack)
find_package(CLI11 2.1 REQUIRED)
add_executable(attack_models ${attack}/models.cc ${attack}/models_case.cc ${attack}/models_feed.cc ${attack}/models_run.cc
  ${attack}/fatal_asserts.cc)
target_link_libraries(attack_models PRIVATE mkc_options mkc_apart mkc_reference fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11)
add_test(NAME attack_models_test COMMAND attack_models --seed 1 --count 8 --quiet)
set_tests_properties(attack_models_test PROPERTIES LABELS attack TIMEOUT 1200)
