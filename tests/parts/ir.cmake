mkc_test(ir_test unit SOURCES unit/ir_expr.cc unit/ir_diag.cc LIBS mkc_ir)
