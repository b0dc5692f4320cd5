// Addresses of object stores as people write them, and names of objects. Pure. Thread: any.

#ifndef SHOAL_NET_OBJECTS_OBJECT_ADDRESS_H_
#define SHOAL_NET_OBJECTS_OBJECT_ADDRESS_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::net {

struct ObjectAddress {
  std::string bucket;  // of s3://bucket/prefix; empty: a folder
  std::string prefix;  // of all keys, without a '/' at its ends; may be empty
  std::string folder;  // of file:///folder: an absolute path
};

// "s3://bucket/prefix" or "file:///folder". The message says what to write.
Result<ObjectAddress> ParseObjectAddress(std::string_view text);

struct ObjectEndpoint {
  std::string url;  // without a '/' at its end
  std::string host;
  bool loopback = false;
};

// "https://host[:port]", and "http://" where it is loopback or `plain_http` allows it; "": Amazon's
// of the region. The message says what to write.
Result<ObjectEndpoint> ParseObjectEndpoint(std::string_view text, std::string_view region,
                                           bool plain_http);

// Small letters, digits and '-', 1 to 64 of them.
Status CheckObjectRegion(std::string_view region);

// What object_store.h says of keys. An empty prefix of keys, and one that ends with '/', are no
// key.
bool IsObjectKey(std::string_view key);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_OBJECT_ADDRESS_H_
