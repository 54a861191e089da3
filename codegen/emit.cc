#include "codegen/emit.h"

#include "ir/diag.h"

namespace mkc {

Emitter::Emitter(llvm::Module& m)
    : module(m),
      ir(m.getContext()),
      global_ptr(llvm::PointerType::get(m.getContext(), 1)),
      shared_ptr(llvm::PointerType::get(m.getContext(), 3)) {}

void Emitter::begin_kernel(const std::string& name, const std::vector<llvm::Type*>& parameters) {
  function = llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), parameters, false),
                                    llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("no-builtins");  // bodies have it, and could not be inlined without it
  ir.SetInsertPoint(block("entry"));
}

llvm::Value* Emitter::local(uint64_t bytes) {
  llvm::BasicBlock& entry = function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::AllocaInst* variable = at_entry.CreateAlloca(llvm::ArrayType::get(ir.getInt8Ty(), bytes));
  variable->setAlignment(llvm::Align(8));
  return variable;
}

llvm::Value* Emitter::at(llvm::Value* base, uint64_t bytes) {
  return bytes == 0 ? base : ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), base, bytes);
}

llvm::Value* Emitter::at(llvm::Value* base, llvm::Value* index, uint64_t stride) {
  llvm::Value* bytes = ir.CreateMul(ir.CreateZExt(index, ir.getInt64Ty()), ir.getInt64(stride));
  return ir.CreateInBoundsGEP(ir.getInt8Ty(), base, bytes);
}

llvm::Value* Emitter::load_ptr(llvm::Value* base, uint64_t bytes) {
  return ir.CreateIntToPtr(load64(base, bytes), global_ptr);
}

llvm::Value* Emitter::call(const char* name, llvm::Type* result, const std::vector<llvm::Value*>& args) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* arg : args) types.push_back(arg->getType());
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  if (auto* declared = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    declared->addFnAttr(llvm::Attribute::Convergent);
    declared->addFnAttr(llvm::Attribute::NoUnwind);
  }
  return ir.CreateCall(callee, args);
}

llvm::BasicBlock* Emitter::block(const char* name) {
  return llvm::BasicBlock::Create(module.getContext(), name, function);
}

void Emitter::if_then(llvm::Value* condition, const std::function<void()>& then) {
  llvm::BasicBlock *yes = block("then"), *after = block("after");
  ir.CreateCondBr(condition, yes, after);
  ir.SetInsertPoint(yes);
  then();
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

void Emitter::striding_loop_until(llvm::Value* first, const std::function<llvm::Value*()>& last,
                                  const std::function<llvm::Value*(llvm::Value*)>& step) {
  llvm::BasicBlock *before = ir.GetInsertBlock(), *test = block("loop"), *inside = block("body"),
                   *after = block("end");
  ir.CreateBr(test);
  ir.SetInsertPoint(test);
  llvm::PHINode* i = ir.CreatePHI(ir.getInt32Ty(), 2);
  i->addIncoming(first, before);
  ir.CreateCondBr(ir.CreateICmpULT(i, last()), inside, after);
  ir.SetInsertPoint(inside);
  llvm::Value* stride = step(i);
  i->addIncoming(ir.CreateAdd(i, stride), ir.GetInsertBlock());
  ir.CreateBr(test);
  ir.SetInsertPoint(after);
}

void Emitter::claim_loop(const std::function<llvm::Value*()>& next, llvm::Value* last,
                         const std::function<void(llvm::Value*, llvm::Value*)>& body) {
  llvm::BasicBlock *before = ir.GetInsertBlock(), *test = block("claiming"), *inside = block("body"),
                   *after = block("end");
  ir.CreateBr(test);
  ir.SetInsertPoint(test);
  llvm::PHINode* first = ir.CreatePHI(ir.getInt1Ty(), 2);
  first->addIncoming(ir.getTrue(), before);
  llvm::Value* i = next();
  ir.CreateCondBr(ir.CreateICmpULT(i, last), inside, after);
  ir.SetInsertPoint(inside);
  body(i, first);
  first->addIncoming(ir.getFalse(), ir.GetInsertBlock());
  ir.CreateBr(test);
  ir.SetInsertPoint(after);
}

llvm::Value* Emitter::apply(ExprKind kind, llvm::Value* a, llvm::Value* b) {
  const auto floor_div = [&](llvm::Value* x, llvm::Value* y) {
    llvm::Value* negative = ir.CreateICmpSLT(ir.CreateSRem(x, y), constant(0));
    return ir.CreateSub(ir.CreateSDiv(x, y), ir.CreateZExt(negative, ir.getInt32Ty()));
  };
  switch (kind) {
    case ExprKind::kConst:
    case ExprKind::kSymbol:
    case ExprKind::kCoord:
    case ExprKind::kElement:
      break;
    case ExprKind::kAdd:
      return ir.CreateAdd(a, b);
    case ExprKind::kSub:
      return ir.CreateSub(a, b);
    case ExprKind::kMul:
      return ir.CreateMul(a, b);
    case ExprKind::kFloorDiv:
      return floor_div(a, b);
    case ExprKind::kCeilDiv:
      return ir.CreateNeg(floor_div(ir.CreateNeg(a), b));
    case ExprKind::kMod:
      return ir.CreateSub(a, ir.CreateMul(floor_div(a, b), b));
    case ExprKind::kMin:
      return ir.CreateSelect(ir.CreateICmpSLT(a, b), a, b);
    case ExprKind::kMax:
      return ir.CreateSelect(ir.CreateICmpSGT(a, b), a, b);
  }
  MKC_BUG("not an operator");
}

llvm::Value* Emitter::value(const Expr& e, const std::vector<llvm::Value*>& coords) {
  std::vector<llvm::Value*> stack;
  for (const ExprNode& node : e.nodes) {
    if (node.kind == ExprKind::kConst) {
      stack.push_back(constant(node.value));
    } else if (node.kind == ExprKind::kSymbol) {
      stack.push_back(symbols[static_cast<size_t>(node.value)]);
    } else if (node.kind == ExprKind::kCoord) {
      stack.push_back(coords[static_cast<size_t>(node.value)]);
    } else if (node.kind == ExprKind::kElement) {
      stack.back() = element(SymbolId{static_cast<uint32_t>(node.value)}, stack.back());
    } else {
      llvm::Value* b = stack.back();
      stack.pop_back();
      stack.back() = apply(node.kind, stack.back(), b);
    }
  }
  return stack.back();
}

}  // namespace mkc
