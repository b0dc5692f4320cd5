// Answers of an S3 service: what is read of them is bounded, and keys survive their encoding.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "net/objects/s3_answers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  using namespace shoal::net;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto listing = ParseS3Listing(text);
  if (listing.ok()) SHOAL_CHECK(listing->objects.size() <= 1000);
  const auto upload = ParseS3UploadId(text);
  if (upload.ok()) SHOAL_CHECK(!upload->empty() && upload->size() <= 4096);
  (void)ParseS3Completed(text);
  const S3Error error = ParseS3Error(text);
  SHOAL_CHECK(error.code.size() <= 300 && error.message.size() <= 300);
  SHOAL_CHECK(DecodePercent(EncodePercent(text)).value() == text);
  return 0;
}
