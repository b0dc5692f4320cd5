// The header of a prepared file, as it is and with its checksum put right.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "dataset/data_header.h"

namespace {

void Check(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  const auto header = shoal::dataset::DecodeDataHeader(bytes, file_bytes);
  if (!header.ok()) return;
  if (header->payload_bytes() + shoal::dataset::kDataHeaderBytes != file_bytes) std::abort();
  const auto again = shoal::dataset::EncodeDataHeader(*header);
  if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Check(bytes, size);
  if (size < shoal::dataset::kDataHeaderBytes) return 0;
  std::vector<std::byte> fixed(bytes.begin(), bytes.begin() + shoal::dataset::kDataHeaderBytes);
  constexpr std::size_t kSumAt = 184;
  shoal::StoreLittle<std::uint64_t>(fixed.data() + kSumAt,
                                    shoal::Checksum64(std::span(fixed).first(kSumAt)));
  Check(fixed, size);
  return 0;
}
