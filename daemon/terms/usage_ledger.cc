#include "daemon/terms/usage_ledger.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"

namespace shoal::daemon {
namespace {

constexpr int kVersion = 2;
// Whose files have no energy.
constexpr int kVersionWithoutEnergy = 1;
// Of a figure; a hundred of them fit in 64 bits.
constexpr std::uint64_t kFigureMax = 100'000'000'000'000'000;

using Field = std::pair<const char*, std::uint64_t Usage::*>;
constexpr std::array<Field, 5> kFields = {
    Field{"trainedMs", &Usage::trained_ms}, Field{"microBatches", &Usage::micro_batches},
    Field{"sentBytes", &Usage::sent_bytes}, Field{"receivedBytes", &Usage::received_bytes},
    Field{"energyJoules", &Usage::energy_joules}};

nlohmann::ordered_json Json(const Usage& usage) {
  nlohmann::ordered_json json;
  for (const auto& [name, field] : kFields) json[name] = usage.*field;
  return json;
}

Result<Usage> ReadUsage(const nlohmann::json& json, int version) {
  const std::size_t fields = kFields.size() - (version == kVersionWithoutEnergy ? 1 : 0);
  if (!json.is_object() || json.size() != fields) {
    return DataLoss("a day has other figures than it should");
  }
  Usage usage;
  for (const auto& [name, field] : std::span(kFields).first(fields)) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > kFigureMax) {
      return DataLoss(std::string("'") + name + "' is no figure");
    }
    usage.*field = found->get<std::uint64_t>();
  }
  return usage;
}

std::optional<int> ReadDate(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  int date = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 4 || i == 7) continue;
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    date = date * 10 + (text[i] - '0');
  }
  const int month = date / 100 % 100, day = date % 100;
  if (month < 1 || month > 12 || day < 1 || day > 31) return std::nullopt;
  return date;
}

// "2026-11-28".
std::string DateText(int date) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02d", date / 10'000, date / 100 % 100,
                date % 100);
  return text.data();
}

}  // namespace

// Without energy where no driver ever told.
std::string StatsJson(const UsageLedger& ledger, std::uint64_t disk_bytes) {
  nlohmann::ordered_json days = nlohmann::ordered_json::array();
  for (const auto& [date, usage] : ledger.days()) {
    nlohmann::ordered_json day = {{"day", DateText(date)}};
    day.update(Json(usage));
    if (ledger.total().energy_joules == 0) day.erase("energyJoules");
    days.push_back(std::move(day));
  }
  nlohmann::ordered_json total = Json(ledger.total());
  if (ledger.total().energy_joules == 0) total.erase("energyJoules");
  const nlohmann::ordered_json json = {{"schemaVersion", 1},
                                       {"days", std::move(days)},
                                       {"total", std::move(total)},
                                       {"diskBytes", disk_bytes}};
  return json.dump();
}

void Usage::Add(const Usage& more) {
  for (const auto& [name, field] : kFields) {
    this->*field = std::min(this->*field + std::min(more.*field, kFigureMax), kFigureMax);
  }
}

Result<UsageLedger> UsageLedger::Parse(std::string_view text) {
  const auto json = ParseJson<nlohmann::json>(text);
  const nlohmann::json told = json.is_object() ? json.value("version", nlohmann::json()) : json;
  if (!json.is_object() || json.size() != 3 ||
      (told != kVersion && told != kVersionWithoutEnergy) || !json.contains("days") ||
      !json["days"].is_object() || !json.contains("total")) {
    return DataLoss("it is no record of usage of version " + std::to_string(kVersion) +
                    " or before");
  }
  const int version = told.get<int>();
  if (json["days"].size() > kUsageDaysMax) return DataLoss("it has too many days");
  UsageLedger ledger;
  SHOAL_ASSIGN_OR_RETURN(ledger.total_, ReadUsage(json["total"], version));
  for (const auto& [key, value] : json["days"].items()) {
    const std::optional<int> date = ReadDate(key);
    if (!date) return DataLoss("a day is not written as 2026-01-31");
    SHOAL_ASSIGN_OR_RETURN(ledger.days_[*date], ReadUsage(value, version));
  }
  return ledger;
}

std::string UsageLedger::Text() const {
  nlohmann::ordered_json days = nlohmann::ordered_json::object();
  for (const auto& [date, usage] : days_) days[DateText(date)] = Json(usage);
  const nlohmann::ordered_json json = {
      {"version", kVersion}, {"days", std::move(days)}, {"total", Json(total_)}};
  return json.dump() + "\n";
}

void UsageLedger::Add(const LocalTime& when, const Usage& more) {
  if (more == Usage{}) return;
  days_[when.date()].Add(more);
  total_.Add(more);
  while (days_.size() > kUsageDaysMax) days_.erase(days_.begin());
}

Usage UsageLedger::Day(const LocalTime& when) const {
  const auto found = days_.find(when.date());
  return found == days_.end() ? Usage{} : found->second;
}

Usage UsageLedger::Month(const LocalTime& when) const {
  Usage sum;
  const int first = when.date() / 100 * 100;
  for (auto day = days_.lower_bound(first); day != days_.end() && day->first < first + 100; ++day) {
    sum.Add(day->second);
  }
  return sum;
}

Result<UsageLedger> ReadUsageLedger(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kUsageFileBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return UsageLedger();
  if (!text.ok()) return text.status();
  Result<UsageLedger> ledger = UsageLedger::Parse(*text);
  if (ledger.ok()) return ledger;
  return ledger.status().WithContext(path +
                                     " is damaged; delete it to count anew, also the "
                                     "transfer budget of this month");
}

}  // namespace shoal::daemon
