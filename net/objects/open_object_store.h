// Opens an ObjectStore by its address. Thread: any.

#ifndef SHOAL_NET_OBJECTS_OPEN_OBJECT_STORE_H_
#define SHOAL_NET_OBJECTS_OPEN_OBJECT_STORE_H_

#include <functional>
#include <memory>
#include <stop_token>

#include "common/clock.h"
#include "common/status.h"
#include "net/objects/object_store.h"
#include "net/objects/object_store_options.h"

namespace shoal::net {

// Sleeps in small steps, as ObjectStoreOptions::wait does, until `stop`. Thread: any.
std::function<void(Duration)> WaitUntil(std::stop_token stop);

// Invalid argument: an address or endpoint that cannot be meant. Does not ask the store anything.
Result<std::unique_ptr<ObjectStore>> OpenObjectStore(ObjectStoreOptions options);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_OPEN_OBJECT_STORE_H_
