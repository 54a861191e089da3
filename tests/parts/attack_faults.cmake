# Disturbed launches: long runs by hand, a slice as a test.
set(attack ${CMAKE_CURRENT_LIST_DIR}/../attack)
find_package(CLI11 2.1 REQUIRED)
add_executable(attack_faults ${attack}/faults.cc ${attack}/faults_models.cc ${attack}/faults_case.cc ${attack}/faults_run.cc
  ${attack}/models_feed.cc ${attack}/fatal_asserts.cc)
target_link_libraries(attack_faults PRIVATE mkc_options mkc_apart mkc_reference fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11)
add_test(NAME attack_faults_test COMMAND attack_faults --seed 1 --count 30 --models 1 --quiet)
set_tests_properties(attack_faults_test PROPERTIES LABELS attack TIMEOUT 1200)
