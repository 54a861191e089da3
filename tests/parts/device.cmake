mkc_test(device_test unit
  SOURCES unit/device_product.cc unit/device_attend.cc unit/device_experts.cc unit/device_draw.cc
  LIBS mkc_device_host mkrt)
