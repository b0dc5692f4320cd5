#include "replica/collective/ring/marsit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "common/half.h"
#include "compression/simd/kernels.h"
#include "compression/simd/vector_kernels.h"
#include "replica/collective/one_bit.h"

namespace shoal::collective {
namespace {

// Values that several passes touch while they are in the cache; whole words of signs.
constexpr std::size_t kBlock = 32 * kSignsPerWord;
using Block = std::array<float, kBlock>;

template <typename T>
std::span<T> As(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

std::size_t MarksOf(const MarsitOptions& options) {
  std::size_t marks = 0;
  for (const RowRange& range : options.masked) marks += range.rows;
  return marks;
}

bool MarkAt(std::span<const std::byte> marks, std::size_t mark) {
  return (std::to_integer<unsigned>(marks[mark / 8]) >> mark % 8 & 1) != 0;
}

bool AllFinite(std::span<const float> values) {
  return compression::AbsMaxBits(values.data(), values.size()) < kFloatInfinity;
}

// A buffer of that many bytes, the spare one if it is.
Buffer Sized(Buffer spare, std::size_t bytes) {
  return spare.size() == bytes ? std::move(spare) : Buffer(bytes);
}

}  // namespace

Status CheckMarsitOptions(const MarsitOptions& options, std::size_t values) {
  if (options.every == 0) return InvalidArgument("marsit needs every=1 or more");
  std::size_t end = 0;
  for (const RowRange& range : options.masked) {
    const bool inside = range.first >= end && range.first <= values && range.columns > 0 &&
                        range.rows <= (values - range.first) / range.columns;
    if (!inside) {
      return InvalidArgument("marsit's masked rows from value " + std::to_string(range.first) +
                             " overlap others or leave the vector of " + std::to_string(values) +
                             " values");
    }
    end = range.first + range.rows * range.columns;
  }
  return Status::Ok();
}

Status CheckMarsitRates(const MarsitRates& rates) {
  if (std::isfinite(rates.local) && std::isfinite(rates.global) && rates.global > 0) {
    return Status::Ok();
  }
  return InvalidArgument("marsit needs a finite local rate and a global rate above 0, not " +
                         std::to_string(rates.local) + " and " + std::to_string(rates.global));
}

std::shared_ptr<const RingMerge> MarsitMerge(const MarsitOptions& options, std::size_t values,
                                             bool exact) {
  return exact ? NewSumMerge() : NewOneBitMerge(options.seed, values, MarksOf(options));
}

MarsitRound::MarsitRound(MarsitRoundPlan plan)
    : plan_(std::move(plan)), values_(plan_.compensation->size() / sizeof(float)) {
  SHOAL_CHECK(plan_.input == nullptr || plan_.input->size() == plan_.compensation->size());
  const std::size_t bytes = plan_.compensation->size();
  std::size_t mark = 0;
  for (const RowRange& range : plan_.options->masked) {
    first_marks_.push_back(mark);
    mark += range.rows;
  }
  first_marks_.push_back(mark);
  if (!plan_.exact) update_ = Sized(std::move(plan_.spare_update), bytes);
  if (contributes()) next_compensation_ = Sized(std::move(plan_.spare_compensation), bytes);
}

std::size_t MarsitRound::vector_bytes() const {
  if (plan_.exact) return values_ * sizeof(float);
  return (SignWords(values_) + SignWords(first_marks_.back())) * sizeof(std::uint64_t);
}

std::size_t MarsitRound::settled_first() const {
  return plan_.exact || first_marks_.back() == 0 ? SIZE_MAX : SignWords(values_);
}

// Values `first` and on of y.
Status MarsitRound::Compensated(std::size_t first, std::span<float> y) const {
  const float* const x = plan_.input->floats().data() + first;
  const float* const c = plan_.compensation->floats().data() + first;
  compression::ScaledSum(x, plan_.rates.local, c, y.size(), y.data());
  if (AllFinite(y)) return Status::Ok();
  const auto bad = std::ranges::find_if(y, [](float value) { return !std::isfinite(value); });
  return InvalidArgument(
      "value " + std::to_string(first + static_cast<std::size_t>(bad - y.begin())) +
      " of this member's compensated vector is not finite; lower the learning rate or skip this "
      "step");
}

Status MarsitRound::Open(std::size_t first, std::span<std::byte> own) {
  if (!contributes()) {
    std::memset(own.data(), 0, own.size());
    return Status::Ok();
  }
  if (plan_.exact) return OpenExact(first, As<float>(own));
  const std::size_t words = own.size() / sizeof(std::uint64_t), all = SignWords(values_);
  const std::size_t of_signs = first < all ? std::min(words, all - first) : 0;
  SHOAL_RETURN_IF_ERROR(
      OpenSigns(first * kSignsPerWord, own.first(of_signs * sizeof(std::uint64_t))));
  if (of_signs < words) {
    OpenMarks((first + of_signs - all) * kSignsPerWord,
              As<std::uint64_t>(own.subspan(of_signs * sizeof(std::uint64_t))));
  }
  return Status::Ok();
}

Status MarsitRound::OpenExact(std::size_t first, std::span<float> own) const {
  for (std::size_t at = 0; at < own.size(); at += kBlock) {
    SHOAL_RETURN_IF_ERROR(
        Compensated(first + at, own.subspan(at, std::min(kBlock, own.size() - at))));
  }
  return Status::Ok();
}

Status MarsitRound::OpenSigns(std::size_t first, std::span<std::byte> signs) const {
  if (signs.empty()) return Status::Ok();
  const std::size_t count = std::min(signs.size() * 8, values_ - first);
  // The last byte of values may be followed by unused ones of its word.
  std::memset(signs.data() + signs.size() - sizeof(std::uint64_t), 0, sizeof(std::uint64_t));
  Block block;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::span<float> y(block.data(), std::min(kBlock, count - at));
    SHOAL_RETURN_IF_ERROR(Compensated(first + at, y));
    compression::PackSignBits(y.data(), y.size(), signs.data() + at / 8);
  }
  return Status::Ok();
}

// Marks `first` and on: whether x has anything but zeros in their rows.
void MarsitRound::OpenMarks(std::size_t first, std::span<std::uint64_t> marks) const {
  std::ranges::fill(marks, 0);
  const std::span<const float> x = std::as_const(*plan_.input).floats();
  const std::size_t end = std::min(first + marks.size() * kSignsPerWord, first_marks_.back());
  std::size_t r = 0;  // range
  for (std::size_t mark = first; mark < end; ++mark) {
    while (first_marks_[r + 1] <= mark) ++r;
    const RowRange& range = plan_.options->masked[r];
    const auto row =
        x.subspan(range.first + (mark - first_marks_[r]) * range.columns, range.columns);
    const bool touched = std::ranges::any_of(row, [](float value) { return value != 0; });
    const std::size_t bit = mark - first;
    marks[bit / kSignsPerWord] |= static_cast<std::uint64_t>(touched) << bit % kSignsPerWord;
  }
}

Status MarsitRound::Close(std::size_t first, std::size_t count, std::span<std::byte> vector) {
  if (plan_.exact) return CloseExact(first, As<float>(vector).subspan(first, count));
  const std::size_t all = SignWords(values_);
  if (first >= all) return Status::Ok();
  const std::size_t value = first * kSignsPerWord;
  const std::size_t values = std::min(count * kSignsPerWord, values_ - value);
  CloseSigns(value, values, vector);
  LeaveUntouched(value, values, vector.subspan(all * sizeof(std::uint64_t)));
  return Status::Ok();
}

Status MarsitRound::CloseExact(std::size_t first, std::span<float> outcome) {
  const float share = 1.0F / static_cast<float>(plan_.contributors);
  compression::Scale(share, outcome.size(), outcome.data());
  if (!AllFinite(outcome)) {
    return InvalidArgument(
        "the average of the members' compensated vectors is not finite; lower the learning rate");
  }
  if (contributes()) {
    std::ranges::fill(next_compensation_.floats().subspan(first, outcome.size()), 0.0F);
  }
  return Status::Ok();
}

// As if all rows were touched.
void MarsitRound::CloseSigns(std::size_t first, std::size_t count,
                             std::span<const std::byte> vector) {
  const float magnitude = plan_.rates.global;
  for (std::size_t at = first; at < first + count; at += kBlock) {
    const std::size_t n = std::min(kBlock, first + count - at);
    float* const g = update_.floats().data() + at;
    compression::SetSigned(vector.data() + at / 8, n, magnitude, g);
    if (!contributes()) continue;
    float* const c = next_compensation_.floats().data() + at;
    compression::ScaledSum(plan_.input->floats().data() + at, plan_.rates.local,
                           plan_.compensation->floats().data() + at, n, c);
    compression::Subtract(g, n, c);
  }
}

// Takes back what untouched rows got between these values.
void MarsitRound::LeaveUntouched(std::size_t first, std::size_t count,
                                 std::span<const std::byte> marks) {
  const std::size_t end = first + count;
  const std::vector<RowRange>& masked = plan_.options->masked;
  const auto range_end = [](const RowRange& r) { return r.first + r.rows * r.columns; };
  const auto from = std::ranges::partition_point(
      masked, [&](const RowRange& range) { return range_end(range) <= first; });
  for (auto r = static_cast<std::size_t>(from - masked.begin());
       r < masked.size() && masked[r].first < end; ++r) {
    const RowRange& range = masked[r];
    std::size_t row = first > range.first ? (first - range.first) / range.columns : 0;
    for (; row < range.rows && range.first + row * range.columns < end; ++row) {
      if (MarkAt(marks, first_marks_[r] + row)) continue;
      const std::size_t begin = std::max(first, range.first + row * range.columns);
      const std::size_t n = std::min(end, range.first + (row + 1) * range.columns) - begin;
      std::ranges::fill(update_.floats().subspan(begin, n), 0.0F);
      if (!contributes()) continue;
      compression::ScaledSum(plan_.input->floats().data() + begin, plan_.rates.local,
                             plan_.compensation->floats().data() + begin, n,
                             next_compensation_.floats().data() + begin);
    }
  }
}

Buffer MarsitRound::TakeUpdate(Buffer vector) {
  SHOAL_CHECK(vector.size() == vector_bytes());
  return plan_.exact ? std::move(vector) : std::move(update_);
}

std::shared_ptr<Buffer> MarsitRound::TakeCompensation() {
  if (!contributes()) return nullptr;
  return std::make_shared<Buffer>(std::move(next_compensation_));
}

}  // namespace shoal::collective
