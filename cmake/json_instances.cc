#include "cmake/json_instances.h"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;

MKC_JSON_EACH_PARSE(template, nlohmann::basic_json<>)
MKC_JSON_EACH_PARSE(template, nlohmann::basic_json<nlohmann::ordered_map>)
