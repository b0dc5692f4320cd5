#include "storage/history/usage_history.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <span>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::storage {
namespace {

constexpr std::string_view kMagic = "SHOALHIS";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 24, kPointBytes = 32, kChecksumBytes = 8;
constexpr std::uint32_t kBackMinutesMax = 60;
constexpr std::int64_t kMinuteMs = 60'000;

const std::byte* Data(std::string_view bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

std::uint64_t ChecksumOf(std::string_view bytes) {
  return Checksum64(std::span(Data(bytes), bytes.size()));
}

std::uint32_t Sum(std::uint32_t a, std::uint64_t b) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(kMax, a + std::min(b, kMax)));
}

std::uint64_t SumBytes(std::uint64_t a, std::uint64_t b) {
  return b > std::numeric_limits<std::uint64_t>::max() - a ? ~std::uint64_t{0} : a + b;
}

// Adds to the point of `minute`, which is made if it is missing.
void AddTo(std::deque<HistoryPoint>* points, std::size_t points_max, std::uint32_t minute,
           const HistoryCounts& more, std::optional<double> loss) {
  while (!points->empty() && points->back().minute > minute &&
         points->back().minute - minute > kBackMinutesMax) {
    points->pop_back();
  }
  if (points->empty() || points->back().minute < minute) {
    points->push_back({});
    points->back().minute = minute;
  }
  while (points->size() > points_max) points->pop_front();
  HistoryPoint& point = points->back();
  point.micro_batches = Sum(point.micro_batches, more.micro_batches);
  point.sent_bytes = SumBytes(point.sent_bytes, more.sent_bytes);
  point.received_bytes = SumBytes(point.received_bytes, more.received_bytes);
  point.trained_ms = Sum(point.trained_ms, more.trained_ms);
  if (loss && std::isfinite(static_cast<float>(*loss))) point.loss = static_cast<float>(*loss);
}

void Store(const HistoryPoint& point, std::byte* to) {
  StoreLittle(to, point.minute);
  StoreLittle(to + 4, point.micro_batches);
  StoreLittle(to + 8, point.sent_bytes);
  StoreLittle(to + 16, point.received_bytes);
  StoreLittle(to + 24, point.trained_ms);
  StoreLittle(to + 28, std::bit_cast<std::uint32_t>(point.loss));
}

Status Load(const std::byte* from, std::size_t count, std::uint32_t period,
            std::deque<HistoryPoint>* points) {
  for (std::size_t i = 0; i < count; ++i, from += kPointBytes) {
    HistoryPoint point;
    point.minute = LoadLittle<std::uint32_t>(from);
    point.micro_batches = LoadLittle<std::uint32_t>(from + 4);
    point.sent_bytes = LoadLittle<std::uint64_t>(from + 8);
    point.received_bytes = LoadLittle<std::uint64_t>(from + 16);
    point.trained_ms = LoadLittle<std::uint32_t>(from + 24);
    point.loss = std::bit_cast<float>(LoadLittle<std::uint32_t>(from + 28));
    if (point.minute % period != 0) return DataLoss("a point begins at no border of its period");
    if (!points->empty() && points->back().minute >= point.minute) {
      return DataLoss("its points are not in order");
    }
    if (std::isinf(point.loss)) return DataLoss("a loss is not finite");
    points->push_back(point);
  }
  return Status::Ok();
}

struct Span {
  std::string_view name;
  std::uint32_t minutes = 0, period = 0;
};
constexpr std::array kSpans = {Span{"1h", 60, 1}, Span{"24h", 24 * 60, kCoarseMinutes},
                               Span{"7d", 7 * 24 * 60, kCoarseMinutes}};

Result<Span> SpanOf(std::string_view query) {
  if (query.empty()) return kSpans.front();
  for (const Span& span : kSpans) {
    if (query == "span=" + std::string(span.name)) return span;
  }
  return InvalidArgument("there is no such history; ask for /history?span=1h, 24h or 7d");
}

std::string PointJson(const HistoryPoint& point) {
  std::array<char, 160> text{};
  std::array<char, 32> loss{"null"};
  if (std::isfinite(point.loss)) {
    std::snprintf(loss.data(), loss.size(), "%.6g", static_cast<double>(point.loss));
  }
  std::snprintf(text.data(), text.size(), "[%lld,%llu,%llu,%u,%u,%s]",
                static_cast<long long>(point.minute) * kMinuteMs,
                static_cast<unsigned long long>(point.sent_bytes),
                static_cast<unsigned long long>(point.received_bytes), point.micro_batches,
                point.trained_ms, loss.data());
  return text.data();
}

}  // namespace

void UsageHistory::Add(std::int64_t now_ms, const HistoryCounts& more, std::optional<double> loss) {
  const auto minute = static_cast<std::uint32_t>(std::max<std::int64_t>(0, now_ms) / kMinuteMs);
  AddTo(&fine_, kFinePointsMax, minute, more, loss);
  AddTo(&coarse_, kCoarsePointsMax, minute - minute % kCoarseMinutes, more, loss);
}

std::string UsageHistory::Bytes() const {
  const std::size_t points = fine_.size() + coarse_.size();
  std::string bytes(kHeaderBytes + points * kPointBytes + kChecksumBytes, '\0');
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  auto* at = reinterpret_cast<std::byte*>(bytes.data());
  StoreLittle(at + 8, kVersion);
  StoreLittle(at + 12, static_cast<std::uint32_t>(fine_.size()));
  StoreLittle(at + 16, static_cast<std::uint32_t>(coarse_.size()));
  at += kHeaderBytes;
  for (const auto* list : {&fine_, &coarse_}) {
    for (const HistoryPoint& point : *list) {
      Store(point, at);
      at += kPointBytes;
    }
  }
  StoreLittle(at, ChecksumOf(std::string_view(bytes).substr(0, bytes.size() - kChecksumBytes)));
  return bytes;
}

Result<UsageHistory> UsageHistory::Parse(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes || !bytes.starts_with(kMagic)) {
    return DataLoss("it is no history");
  }
  const std::byte* const at = Data(bytes);
  if (const auto version = LoadLittle<std::uint32_t>(at + 8); version != kVersion) {
    return DataLoss("its version is " + std::to_string(version) + ", not " +
                    std::to_string(kVersion));
  }
  const std::size_t fine = LoadLittle<std::uint32_t>(at + 12);
  const std::size_t coarse = LoadLittle<std::uint32_t>(at + 16);
  if (fine > kFinePointsMax || coarse > kCoarsePointsMax ||
      bytes.size() != kHeaderBytes + (fine + coarse) * kPointBytes + kChecksumBytes ||
      LoadLittle<std::uint32_t>(at + 20) != 0) {
    return DataLoss("its size is not that of its points");
  }
  const std::size_t end = bytes.size() - kChecksumBytes;
  if (LoadLittle<std::uint64_t>(at + end) != ChecksumOf(bytes.substr(0, end))) {
    return DataLoss("its checksum is wrong");
  }
  UsageHistory history;
  SHOAL_RETURN_IF_ERROR(Load(at + kHeaderBytes, fine, 1, &history.fine_));
  SHOAL_RETURN_IF_ERROR(
      Load(at + kHeaderBytes + fine * kPointBytes, coarse, kCoarseMinutes, &history.coarse_));
  return history;
}

Result<std::string> HistoryJson(const UsageHistory& history, std::string_view query,
                                std::int64_t now_ms) {
  SHOAL_ASSIGN_OR_RETURN(const Span span, SpanOf(query));
  const std::int64_t now = now_ms / kMinuteMs;
  std::string json = "{\"schemaVersion\":1,\"span\":\"" + std::string(span.name) +
                     "\",\"periodMs\":" + std::to_string(span.period * kMinuteMs) + ",\"points\":[";
  bool first = true;
  for (const HistoryPoint& point : span.period == 1 ? history.fine() : history.coarse()) {
    if (point.minute + std::int64_t{span.period} > now) continue;
    if (point.minute + std::int64_t{span.minutes} < now) continue;
    json += (first ? "" : ",") + PointJson(point);
    first = false;
  }
  return json + "]}";
}

}  // namespace shoal::storage
