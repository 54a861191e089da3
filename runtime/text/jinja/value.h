// Values of templates have the semantics of Python's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mkrt::jinja {

class Arena;
struct Call;
struct Statement;
struct Scope;

// Object is the base of what an arena holds. Objects live as long as the arena.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};

struct Undefined;
struct Text;
struct Sequence;
struct Dict;
struct DictView;
struct Range;
struct Iterator;
struct Namespace;
struct Macro;
struct Loop;
struct Function;
struct Cycler;
struct Joiner;

// A Value is small and is copied freely. It does not own its object.
class Value {
 public:
  enum class Kind : uint8_t {
    kMissing,  // a name without a value; never the value of an expression
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDict,
    kDictView,
    kRange,
    kIterator,
    kNamespace,
    kMacro,
    kLoop,
    kFunction,
    kCycler,
    kJoiner,
  };

  Value() : kind_(Kind::kMissing), int_(0) {}
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b);
  static Value integer(int64_t i);
  static Value real(double d);
  Value(const Undefined* object) : kind_(Kind::kUndefined), undefined_(object) {}
  Value(const Text* object) : kind_(Kind::kText), text_(object) {}
  Value(const Dict* object) : kind_(Kind::kDict), dict_(object) {}
  Value(const DictView* object) : kind_(Kind::kDictView), view_(object) {}
  Value(const Range* object) : kind_(Kind::kRange), range_(object) {}
  Value(Iterator* object) : kind_(Kind::kIterator), iterator_(object) {}
  Value(Namespace* object) : kind_(Kind::kNamespace), namespace_(object) {}
  Value(const Macro* object) : kind_(Kind::kMacro), macro_(object) {}
  Value(Loop* object) : kind_(Kind::kLoop), loop_(object) {}
  Value(const Function* object) : kind_(Kind::kFunction), function_(object) {}
  Value(Cycler* object) : kind_(Kind::kCycler), cycler_(object) {}
  Value(Joiner* object) : kind_(Kind::kJoiner), joiner_(object) {}
  static Value list(const Sequence* object);
  static Value tuple(const Sequence* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  // Booleans are integers, as in Python.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }

  // Each function requires the kind of its name.
  bool as_bool() const { return bool_; }
  int64_t as_integer() const { return kind_ == Kind::kBool ? bool_ : int_; }
  double as_real() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(as_integer()); }
  const Undefined& undefined() const { return *undefined_; }
  const Text& text() const { return *text_; }
  const Sequence& sequence() const { return *sequence_; }
  const Dict& dict() const { return *dict_; }
  const DictView& view() const { return *view_; }
  const Range& range() const { return *range_; }
  Iterator& iterator() const { return *iterator_; }
  Namespace& name_space() const { return *namespace_; }
  const Macro& macro() const { return *macro_; }
  Loop& loop() const { return *loop_; }
  const Function& function() const { return *function_; }
  Cycler& cycler() const { return *cycler_; }
  Joiner& joiner() const { return *joiner_; }

  const void* object() const;     // the address of the object, or null for a value without one
  std::string_view type() const;  // the name of the type in Python, for messages
  std::string described() const;  // the name behind an article, such as "a list"

 private:
  explicit Value(Kind kind) : kind_(kind), int_(0) {}

  Kind kind_;
  union {
    bool bool_;
    int64_t int_;
    double float_;
    const Undefined* undefined_;
    const Text* text_;
    const Sequence* sequence_;
    const Dict* dict_;
    const DictView* view_;
    const Range* range_;
    Iterator* iterator_;
    Namespace* namespace_;
    const Macro* macro_;
    Loop* loop_;
    const Function* function_;
    Cycler* cycler_;
    Joiner* joiner_;
  };
};
using ValueKind = Value::Kind;

// Undefined can be printed, iterated and tested. Any other use is an error with the message.
struct Undefined : Object {
  explicit Undefined(std::string why) : message(std::move(why)) {}
  const std::string message;
};

// Text is valid UTF-8. `is_markup` is Python's Markup: text that `escape` leaves alone.
struct Text : Object {
  Text(std::string text, bool markup);
  const std::string bytes;
  const size_t length;  // in code points
  const bool is_markup;
  bool is_ascii() const { return length == bytes.size(); }
};

// Sequence holds the elements of a list or a tuple. The sandbox lets no template change them.
struct Sequence : Object {
  explicit Sequence(std::vector<Value> values, bool group = false)
      : items(std::move(values)), is_group(group) {}
  const std::vector<Value> items;
  const bool is_group;  // a pair of groupby, with attributes grouper and list
};

// Dict keeps its items in the order of their first insertion.
struct Dict : Object {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_multimap<uint64_t, size_t> positions;  // hash of a key -> index of its item
};

// DictView is what keys(), values() and items() return.
struct DictView : Object {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  DictView(const Dict& of, Part which) : dict(of), part(which) {}
  const Dict& dict;
  const Part part;
};

struct Range : Object {
  Range(int64_t first, int64_t limit, int64_t by) : start(first), stop(limit), step(by) {}
  const int64_t start, stop, step;
  int64_t length() const;
};

// Advance sets the value to the next element and returns whether there is one. It may change the value
// without one.
using Advance = std::function<bool(Value&)>;

// Iterator is a Python iterator or generator: it can be passed through once.
struct Iterator : Object {
  explicit Iterator(Advance step) : advance(std::move(step)) {}
  Advance advance;
};

struct Namespace : Object {
  Dict* attributes = nullptr;
};

struct Macro : Object {
  Macro(const Statement& code, Scope* around) : statement(code), scope(around) {}
  const Statement& statement;
  Scope* const scope;
};

// Loop is the variable `loop` of a for statement.
struct Loop : Object {
  Value iterable;
  Advance advance;
  int64_t index0 = -1;
  int64_t length = -1;  // -1: not counted yet
  Value before, current;
  Value ahead;  // an element that was read early; missing: none
  Value changed;
};

// Function is a function of the host, or a method bound to its receiver.
struct Function : Object {
  using Code = Value (*)(Call&);
  Function(std::string title, Code what, Value of = {}) : name(std::move(title)), code(what), receiver(of) {}
  const std::string name;
  const Code code;
  const Value receiver;
};

struct Cycler : Object {
  std::vector<Value> items;
  size_t position = 0;
};

struct Joiner : Object {
  Value separator;
  bool is_used = false;
};

}  // namespace mkrt::jinja
