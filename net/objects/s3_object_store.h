// An ObjectStore in an S3-compatible service. Internal to this room.

#ifndef SHOAL_NET_OBJECTS_S3_OBJECT_STORE_H_
#define SHOAL_NET_OBJECTS_S3_OBJECT_STORE_H_

#include <memory>

#include "net/objects/object_store.h"
#include "net/objects/object_store_options.h"

namespace shoal::net {

// Buckets are addressed by path (https://host/bucket/key), which every service knows.
Result<std::unique_ptr<ObjectStore>> OpenS3ObjectStore(ObjectStoreOptions options);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_S3_OBJECT_STORE_H_
