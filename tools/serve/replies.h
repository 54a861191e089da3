// Errors, JSON and files become answers of exchanges.
#pragma once

#include "tools/serve/answer_json.h"
#include "tools/serve/api_error.h"
#include "tools/serve/http_server.h"
#include "tools/serve/web_files.h"

namespace mkc {

// Answers with the error and its status. Answers to come again for have Retry-After.
void reply_error(const ExchangePtr& exchange, const ApiError& error);

// Answers with status 200.
void reply_json(const ExchangePtr& exchange, const Json& json);

// Answers with a file of the web page, and with the headers that keep it safe.
void reply_file(const ExchangePtr& exchange, const WebFile& file);

}  // namespace mkc
