// Strong identifiers of what crosses module borders. Plain structs, std only.

#ifndef SHOAL_COMMON_IDS_H_
#define SHOAL_COMMON_IDS_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal {

// A peer's Ed25519 public key, raw. The only identity a peer has.
struct PeerId {
  std::array<std::uint8_t, 32> key{};

  // 64 lower-case hexadecimal digits.
  std::string ToHex() const;
  // The first 8 hexadecimal digits, for people and logs.
  std::string ToShort() const { return ToHex().substr(0, 8); }
  static Result<PeerId> FromHex(std::string_view hex);

  auto operator<=>(const PeerId&) const = default;
};

// A run's random 64-bit identifier; printed as 16 hexadecimal digits.
struct RunId {
  std::uint64_t value = 0;

  std::string ToHex() const;
  static Result<RunId> FromHex(std::string_view hex);

  auto operator<=>(const RunId&) const = default;
};

// An invite of a run: the first 8 bytes of the key that its secret stands for, the first byte
// highest; printed as 16 hexadecimal digits. 0: none.
struct InviteId {
  std::uint64_t value = 0;

  std::string ToHex() const;
  static Result<InviteId> FromHex(std::string_view hex);

  auto operator<=>(const InviteId&) const = default;
};

// The stable row number of a sample in the prepared data set.
struct SampleId {
  std::uint64_t value = 0;
  auto operator<=>(const SampleId&) const = default;
};

// A segment of a sample: what crosses a boundary as a unit, and under what stores keep its m. Made
// of a sample's id by pipeline/core/segments.h only; opaque to whoever stores it.
struct SegmentId {
  std::uint64_t value = 0;
  auto operator<=>(const SegmentId&) const = default;
};

// Position of a micro-batch: optimizer step and index within its pipeline's list for that step.
struct MicroBatchId {
  std::uint64_t step = 0;
  std::uint32_t index = 0;
  auto operator<=>(const MicroBatchId&) const = default;
};

}  // namespace shoal

template <>
struct std::hash<shoal::SampleId> {
  std::size_t operator()(const shoal::SampleId& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};

template <>
struct std::hash<shoal::PeerId> {
  std::size_t operator()(const shoal::PeerId& id) const noexcept {
    return std::hash<std::string_view>{}(
        std::string_view(reinterpret_cast<const char*>(id.key.data()), id.key.size()));
  }
};

#endif  // SHOAL_COMMON_IDS_H_
