// The few fields that we need of an S3 service's answers, which are XML. Pure. Thread: any.
//
// A document type, elements nested deeper than 16, texts longer than 4 KiB and more than 1,000
// entries are data loss: none of these comes from a service.

#ifndef SHOAL_NET_OBJECTS_S3_ANSWERS_H_
#define SHOAL_NET_OBJECTS_S3_ANSWERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "net/objects/object_store.h"

namespace shoal::net {

// One page of ListObjectsV2 with encoding-type=url.
struct S3Listing {
  std::vector<ObjectInfo> objects;
  std::string next;  // token of the next page; empty: there is none
};
Result<S3Listing> ParseS3Listing(std::string_view xml);

// The id of CreateMultipartUpload: printable ASCII, not empty.
Result<std::string> ParseS3UploadId(std::string_view xml);

// Ok if it says that the object is made. A service answers 200 before it knows, so this may be the
// error: unavailable, to be tried again.
Status ParseS3Completed(std::string_view xml);

struct S3Error {
  std::string code, message;  // printable ASCII; empty where it says none
};
// Of an answer that is no error as S3 writes them: empty.
S3Error ParseS3Error(std::string_view xml);

// %41 is A; nothing else changes. Data loss: a '%' without two hexadecimal digits.
Result<std::string> DecodePercent(std::string_view text);
// All but A-Z a-z 0-9 - . _ ~ as %41, with capitals: as a signature has them.
std::string EncodePercent(std::string_view text);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_S3_ANSWERS_H_
