#include "scheduler/peers/peer_status.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/nesting.h"
#include "common/text.h"
#include "net/http/status_fields.h"
#include "scheduler/peers/peer_message_check.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

// `value` as the field says, in `lists` lists; discarded if it is of another type.
Json Fit(const Json& value, const net::FieldNode& field, std::size_t lists) {
  using Kind = net::FieldKind;
  if (value.is_null()) return nullptr;
  Json fitted(Json::value_t::discarded);
  if (lists > 0) {
    if (!value.is_array()) return fitted;
    fitted = Json::array();
    for (const Json& item : value) {
      if (fitted.size() == kStatusItemsMax) break;
      if (Json one = Fit(item, field, lists - 1); !one.is_discarded()) {
        fitted.push_back(std::move(one));
      }
    }
  } else if (field.kind == Kind::kText && value.is_string()) {
    fitted = CleanText(value.get_ref<const std::string&>(), kStatusCharactersMax);
  } else if (field.kind == Kind::kNumber && value.is_number()) {
    if (std::isfinite(value.get<double>())) fitted = value;
  } else if (field.kind == Kind::kFlag && value.is_boolean()) {
    fitted = value;
  } else if (field.kind == Kind::kObject && value.is_object()) {
    fitted = Json::object();
    for (const net::FieldNode& part : field.fields) {
      const auto found = value.find(part.name);
      if (found == value.end()) continue;
      if (Json one = Fit(*found, part, part.lists); !one.is_discarded()) {
        fitted[std::string(part.name)] = std::move(one);
      }
    }
  }
  return fitted;
}

}  // namespace

Result<std::string> FitPeerStatus(std::string_view json) {
  const Json status = ParseJson<Json>(json, kStatusDepthMax);
  if (!status.is_object()) {
    return InvalidArgument("malformed message: status_json is no JSON object, or nests too deep");
  }
  return Fit(status, net::PeerStatusTree(), 0).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shoal::scheduler
