// Emitter adds the code that kernels need often to llvm::IRBuilder: loops, branches, loads.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace mkc {

// Emitter emits into one function of a module at a time. Values are i32 unless a comment gives another type.
// Pointers are opaque.
struct Emitter {
  explicit Emitter(llvm::Module& module);

  llvm::Module& module;
  llvm::IRBuilder<> ir;
  llvm::Function* function = nullptr;
  llvm::PointerType* global_ptr;      // address space 1
  llvm::PointerType* shared_ptr;      // address space 3
  std::vector<llvm::Value*> symbols;  // by SymbolId; null for lists and for symbols without a value yet
  std::function<llvm::Value*(SymbolId list, llvm::Value* index)> element;

  // Creates the kernel `name`, which returns nothing, and sets the insertion point to its entry.
  void begin_kernel(const std::string& name, const std::vector<llvm::Type*>& parameters);
  llvm::Value* constant(int64_t value) { return ir.getInt32(static_cast<uint32_t>(value)); }
  // Returns the address of a local variable of `bytes` bytes, aligned to 8. The alloca is in the entry block.
  llvm::Value* local(uint64_t bytes);
  llvm::Value* at(llvm::Value* base, uint64_t bytes);                       // base + bytes
  llvm::Value* at(llvm::Value* base, llvm::Value* index, uint64_t stride);  // base + index * stride, in bytes
  llvm::Value* load32(llvm::Value* base, uint64_t bytes) {
    return ir.CreateLoad(ir.getInt32Ty(), at(base, bytes));
  }
  llvm::Value* load64(llvm::Value* base, uint64_t bytes) {
    return ir.CreateLoad(ir.getInt64Ty(), at(base, bytes));
  }
  llvm::Value* load_ptr(llvm::Value* base, uint64_t bytes);  // global address that memory holds as an integer
  // Calls a primitive or body, and declares it if it is not yet declared. Every call is convergent, because
  // primitives and bodies contain barriers.
  llvm::Value* call(const char* name, llvm::Type* result, const std::vector<llvm::Value*>& args);
  void call(const char* name, const std::vector<llvm::Value*>& args) { call(name, ir.getVoidTy(), args); }

  llvm::BasicBlock* block(const char* name);
  void if_then(llvm::Value* condition, const std::function<void()>& then);
  // for (i = first; i < last; i += step(i)), unsigned
  void striding_loop(llvm::Value* first, llvm::Value* last,
                     const std::function<llvm::Value*(llvm::Value*)>& step) {
    striding_loop_until(first, [&] { return last; }, step);
  }
  // the same, where last() emits the code of `last` anew before each step
  void striding_loop_until(llvm::Value* first, const std::function<llvm::Value*()>& last,
                           const std::function<llvm::Value*(llvm::Value*)>& step);
  // for (i = first; i < last; ++i) body(i), unsigned
  void loop(llvm::Value* first, llvm::Value* last, const std::function<void(llvm::Value*)>& body) {
    loop_until(first, [&] { return last; }, body);
  }
  void loop_until(llvm::Value* first, const std::function<llvm::Value*()>& last,
                  const std::function<void(llvm::Value*)>& body) {
    striding_loop_until(first, last, [&](llvm::Value* i) {
      body(i);
      return constant(1);
    });
  }
  // for (bool first = true; (i = next()) < last; first = false) body(i, first), unsigned
  void claim_loop(const std::function<llvm::Value*()>& next, llvm::Value* last,
                  const std::function<void(llvm::Value* i, llvm::Value* first)>& body);

  // Returns the value of an expression. Uses this->symbols, this->element for lists, and the given
  // coordinates.
  llvm::Value* value(const Expr& e, const std::vector<llvm::Value*>& coords = {});

 private:
  llvm::Value* apply(ExprKind kind, llvm::Value* a, llvm::Value* b);
};

}  // namespace mkc
