// Whole numbers of JSON that came from a file.

#ifndef SHOAL_SCHEDULER_HISTORY_JSON_NUMBER_H_
#define SHOAL_SCHEDULER_HISTORY_JSON_NUMBER_H_

#include <cstdint>
#include <limits>
#include <string>

namespace shoal::scheduler {

// A whole number from 0 to what Number holds. Throws Json::exception for any other value. The
// library's own get() converts 1e30 and 2.5 as well: the first is undefined, the second wrong.
template <typename Number, typename Json>
Number WholeNumber(const Json& json) {
  if (!json.is_number_unsigned() ||
      json.template get<std::uint64_t>() > std::numeric_limits<Number>::max()) {
    throw Json::other_error::create(501, "no whole number from 0 that fits", &json);
  }
  return json.template get<Number>();
}

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_JSON_NUMBER_H_
