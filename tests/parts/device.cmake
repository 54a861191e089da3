mkc_test(device_test unit
  SOURCES unit/device_product.cc unit/device_product_bits.cc unit/device_partial.cc unit/device_embed.cc unit/device_attend.cc unit/device_experts.cc unit/device_sample.cc unit/device_e4m3.cc unit/device_pack.cc
  LIBS mkc_device_host mkrt nlohmann_json::nlohmann_json)
