#include "runtime/text/jinja/value.h"

#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {

Value Value::boolean(bool b) {
  Value value(Kind::kBool);
  value.bool_ = b;
  return value;
}

Value Value::integer(int64_t i) {
  Value value(Kind::kInt);
  value.int_ = i;
  return value;
}

Value Value::real(double d) {
  Value value(Kind::kFloat);
  value.float_ = d;
  return value;
}

Value Value::list(const Sequence* object) {
  Value value(Kind::kList);
  value.sequence_ = object;
  return value;
}

Value Value::tuple(const Sequence* object) {
  Value value(Kind::kTuple);
  value.sequence_ = object;
  return value;
}

const void* Value::object() const {
  switch (kind_) {
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return nullptr;
    case Kind::kUndefined:
      return undefined_;
    case Kind::kText:
      return text_;
    case Kind::kList:
    case Kind::kTuple:
      return sequence_;
    case Kind::kDict:
      return dict_;
    case Kind::kDictView:
      return view_;
    case Kind::kRange:
      return range_;
    case Kind::kIterator:
      return iterator_;
    case Kind::kNamespace:
      return namespace_;
    case Kind::kMacro:
      return macro_;
    case Kind::kLoop:
      return loop_;
    case Kind::kFunction:
      return function_;
    case Kind::kCycler:
      return cycler_;
    case Kind::kJoiner:
      return joiner_;
  }
  return nullptr;
}

std::string_view Value::type() const {
  switch (kind_) {
    case Kind::kMissing:
      return "missing";
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "iterator";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kMacro:
      return "macro";
    case Kind::kLoop:
      return "loop";
    case Kind::kFunction:
      return "function";
    case Kind::kCycler:
      return "cycler";
    case Kind::kJoiner:
      return "joiner";
  }
  return "";
}

std::string Value::described() const {
  if (is_none()) return "none";
  if (is_undefined()) return "an undefined value (" + undefined_->message + ")";
  return std::string(kind_ == Kind::kInt || kind_ == Kind::kIterator ? "an " : "a ") + std::string(type());
}

Text::Text(std::string text, bool markup)
    : bytes(std::move(text)), length(count_code_points(bytes)), is_markup(markup) {}

int64_t Range::length() const {
  if (step > 0 && start < stop)
    return static_cast<int64_t>((static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) /
                                static_cast<uint64_t>(step)) +
           1;
  if (step < 0 && start > stop)
    return static_cast<int64_t>((static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) /
                                (0 - static_cast<uint64_t>(step))) +
           1;
  return 0;
}

}  // namespace mkrt::jinja
