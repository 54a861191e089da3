mkc_test(mkir_test mkir SOURCES ${CMAKE_CURRENT_LIST_DIR}/../mkir/mkir_test.cc LIBS mkc_ir fmt::fmt)
