// Each scope of a template declares its names, and where their first values come from.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace mkrt::jinja {

struct Expression;
struct Template;

// Initial says what a name of a scope is before the scope assigns it.
enum class Initial : uint8_t {
  kParameter,  // the scope's owner assigns it
  kContext,    // the variable of that name which rendering was given
  kOuter,      // the value of the enclosing scope
  kMissing,    // undefined
};

// Symbols are the names of one scope. `if` opens no scope.
//
// Jinja2 decides before rendering which scope a name belongs to. A name that a scope assigns anywhere belongs
// to it from its begin on, and inner scopes see it there.
struct Symbols {
  const Symbols* parent = nullptr;
  std::map<std::string, Initial, std::less<>> names;
  std::set<std::string, std::less<>> assigned;

  bool holds(const std::string& name) const { return names.contains(name); }
  bool is_known(const std::string& name) const;  // here or in an enclosing scope
};

// Fills in the symbols of every scope. The template must stay where it is afterwards.
void find_symbols(Template& tree);

}  // namespace mkrt::jinja
