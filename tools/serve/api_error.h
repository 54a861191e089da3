// Errors have the form that clients of OpenAI's API read.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace mkc {

struct ApiError {
  unsigned status = 400;   // of HTTP
  std::string message;     // names the field, the value found and the values expected
  std::string param = {};  // field of the request; empty: none
  std::string type = "invalid_request_error";
  std::string code = {};  // empty: none
};

// Returns {"error": {"message", "type", "param", "code"}}. Bytes of a message that are no UTF-8 are replaced.
std::string error_json(const ApiError& error);

// Returns an error of a document named kBody, with that name left out.
ApiError body_error(const mkrt::Error& error, const std::string& param = {});
inline const std::string kBody = "body";

}  // namespace mkc
