// Parts of the human views: fields of foreign JSON, and what they are as text. A field that is
// missing or has another type is "", 0 or an empty list. Internal to client/. Pure. Thread: any.

#ifndef SHOAL_CLIENT_STATUS_TEXT_INL_H_
#define SHOAL_CLIENT_STATUS_TEXT_INL_H_

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace shoal::client {

using Json = nlohmann::json;
using Row = std::vector<std::string>;

// A JSON object; an error names `what`, such as "the status".
Result<Json> ParseObject(const std::string& text, const std::string& what);

const Json& At(const Json& json, const char* key);
const Json& List(const Json& json, const char* key);
// Without control characters.
std::string Text(const Json& json, const char* key);
double Number(const Json& json, const char* key);
// Counts: a number outside of 0 to 9e18 becomes the nearer of the two.
std::uint64_t ToWhole(double value);
std::uint64_t Whole(const Json& json, const char* key);
// Losses of a list of numbers or of [step, loss] pairs.
std::vector<double> Losses(const Json& list);

// "2.3456 after 100 steps, 3.2109 before the first step" of the fields heldOutLoss, heldOutStep and
// heldOut; "" where nothing was measured.
std::string HeldOutText(const Json& run);

// The label of a field of a peer's status (status_fields.h), as the first cell of a row.
std::string RowName(const char* path);
// By a format of printf for one double.
std::string Decimal(const char* format, double value);
std::string RateText(double bits_per_second);
std::string MillisecondsText(double ms);
// "38.2 Wh", "1.25 kWh".
std::string EnergyText(double joules);
// "287 W of at most 350 W, 10.2 GiB of 24.0 GiB of memory in use", of a status's gpu; "" if none.
std::string GpuText(const Json& gpu);
// Of 0 to 100.
std::string WholePercent(double percent);
// Of a fraction, with more digits where it is small.
std::string PercentText(const Json& json, const char* key);
// A state in its colour.
std::string StateText(const std::string& state);
// "pipelines 0, 1": those whose peers of a stage share a LAN, from a status's role; "" if none.
std::string LanText(const Json& role);
// Findings of the statuses (name, status), each once, with the names of all that report it.
std::string HealthLines(const std::vector<std::pair<std::string, const Json*>>& statuses);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_STATUS_TEXT_INL_H_
