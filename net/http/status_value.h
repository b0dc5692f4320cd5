// StatusValue: a value of a status before it is written: text, number, flag, list, object, or
// nothing, which is null in JSON and leaves metrics out.

#ifndef SHOAL_NET_HTTP_STATUS_VALUE_H_
#define SHOAL_NET_HTTP_STATUS_VALUE_H_

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace shoal::net {

struct StatusValue;
struct StatusMember;
using StatusList = std::vector<StatusValue>;
using StatusObject = std::vector<StatusMember>;
// JSON that is written as it is.
struct ForeignJson {
  std::string text;
};

struct StatusValue {
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, ForeignJson,
               StatusList, StatusObject>
      value;

  StatusValue() = default;
  StatusValue(bool flag);
  StatusValue(std::floating_point auto number);
  StatusValue(std::signed_integral auto number);
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) StatusValue(Number number);
  StatusValue(const char* text);
  StatusValue(std::string_view text);
  StatusValue(std::string text);
  StatusValue(ForeignJson json);
  StatusValue(StatusList list);
  StatusValue(StatusObject object);
  template <typename Value>
  StatusValue(const std::optional<Value>& known) {
    if (known) *this = StatusValue(*known);
  }
  template <typename Value>
  StatusValue(const std::vector<Value>& values);
};

struct StatusMember {
  std::string_view name;
  StatusValue value;
};

// Behind StatusMember, because they use the variant, which must be able to destroy one.
inline StatusValue::StatusValue(bool flag) : value(flag) {}
StatusValue::StatusValue(std::floating_point auto number) : value(static_cast<double>(number)) {}
StatusValue::StatusValue(std::signed_integral auto number)
    : value(static_cast<std::int64_t>(number)) {}
template <std::unsigned_integral Number>
requires(!std::same_as<Number, bool>) StatusValue::StatusValue(Number number)
    : value(static_cast<std::uint64_t>(number)) {}
inline StatusValue::StatusValue(const char* text) : value(std::string(text)) {}
inline StatusValue::StatusValue(std::string_view text) : value(std::string(text)) {}
inline StatusValue::StatusValue(std::string text) : value(std::move(text)) {}
inline StatusValue::StatusValue(ForeignJson json) : value(std::move(json)) {}
inline StatusValue::StatusValue(StatusList list) : value(std::move(list)) {}
inline StatusValue::StatusValue(StatusObject object) : value(std::move(object)) {}
template <typename Value>
StatusValue::StatusValue(const std::vector<Value>& values)
    : value(StatusList(values.begin(), values.end())) {}

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_STATUS_VALUE_H_
