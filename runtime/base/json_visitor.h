// JSON documents are read without keeping their values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mkrt {

// JsonVisitor reads a document without keeping it. The parser that keeps the document reports bad syntax.
// nlohmann's own callbacks take a time that grows with the square of an array's objects.
class JsonVisitor : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
};

}  // namespace mkrt
