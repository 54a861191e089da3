mkc_test(text_test unit
  SOURCES
    unit/text_vectors.cc
    unit/text_pieces.cc
    unit/text_stream.cc
    unit/text_limits.cc
    unit/text_errors.cc
  LIBS mkc_text nlohmann_json::nlohmann_json)
