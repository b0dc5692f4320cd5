// A prepared file, as it is and with its header's checksum put right: header, and rows as they are.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "dataset/data_header.h"
#include "dataset/data_payload.h"

namespace {

// Rows that pass the check can be read.
void CheckRows(const shoal::dataset::DataHeader& header, std::span<const std::byte> bytes) {
  const shoal::dataset::DataPayload payload(header, bytes);
  if (!payload.Check().ok()) return;
  for (std::uint64_t row = 0; row < header.rows(); ++row) {
    for (std::uint32_t i = 0; i < header.row_tokens; ++i) {
      const std::int32_t token = payload.Token(row, i);
      if (token < 0 || static_cast<std::uint32_t>(token) >= header.vocabulary) std::abort();
    }
    if (header.kind == shoal::dataset::DataKind::kText) continue;
    if (payload.Length(row) == 0 || payload.Length(row) > header.row_tokens) std::abort();
    if (header.kind == shoal::dataset::DataKind::kSamples && payload.CountedTokens(row) == 0) {
      std::abort();
    }
    if (header.kind == shoal::dataset::DataKind::kClasses && payload.Class(row) >= header.classes) {
      std::abort();
    }
    if (header.typed &&
        (payload.TypeBorder(row) == 0 || payload.TypeBorder(row) > payload.Length(row))) {
      std::abort();
    }
  }
}

// `bytes`: the header, and all of the file behind it or nothing.
void Check(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  const auto header = shoal::dataset::DecodeDataHeader(
      bytes.first(std::min(bytes.size(), shoal::dataset::kDataHeaderBytes)), file_bytes);
  if (!header.ok()) return;
  if (header->payload_bytes() + shoal::dataset::kDataHeaderBytes != file_bytes) std::abort();
  if (bytes.size() == file_bytes) {
    CheckRows(*header, bytes.subspan(shoal::dataset::kDataHeaderBytes));
  }
  const auto again = shoal::dataset::EncodeDataHeader(*header);
  if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Check(bytes, size);
  if (size < shoal::dataset::kDataHeaderBytes) return 0;
  std::vector<std::byte> fixed(bytes.begin(), bytes.end());
  constexpr std::size_t kSumAt = 184;
  shoal::StoreLittle<std::uint64_t>(fixed.data() + kSumAt,
                                    shoal::Checksum64(std::span(fixed).first(kSumAt)));
  Check(fixed, size);
  return 0;
}
