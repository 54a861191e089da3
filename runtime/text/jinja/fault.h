// A template's error is thrown inside this folder and caught by chat_template.cc.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace mkrt::jinja {

// A Fault stops parsing or rendering. Line 0 stands for the line that is being evaluated.
struct Fault {
  std::string message;
  uint32_t line = 0;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void fail_at(uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...), line};
}

}  // namespace mkrt::jinja
