set(stress ${CMAKE_CURRENT_LIST_DIR}/../stress)
set(stress_libs mkc_reference fmt::fmt)
mkc_test(stress_models_test stress SOURCES ${stress}/models.cc ${stress}/tiny_model.cc LIBS ${stress_libs})
mkc_test(stress_mutants_test stress SOURCES ${stress}/mutants.cc ${stress}/mutant_lists.cc ${stress}/edits.cc ${stress}/tiny_model.cc
  LIBS mkc_apart ${stress_libs})
mkc_test(stress_faults_test stress
  SOURCES ${stress}/faults.cc ${stress}/reports.cc ${stress}/edits.cc ${stress}/tiny_model.cc
  LIBS ${stress_libs})
mkc_test(stress_sample_test stress SOURCES ${stress}/sample.cc ${stress}/edits.cc LIBS mkc_codegen fmt::fmt)
mkc_test(stress_declared_test stress SOURCES ${stress}/declared.cc ${stress}/tiny_model.cc LIBS ${stress_libs})
