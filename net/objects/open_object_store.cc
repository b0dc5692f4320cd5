#include "net/objects/open_object_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "net/objects/folder_object_store.h"
#include "net/objects/object_address.h"
#include "net/objects/s3_object_store.h"

namespace shoal::net {

std::function<void(Duration)> WaitUntil(std::stop_token stop) {
  return [stop = std::move(stop)](Duration duration) {
    constexpr Duration kStep = std::chrono::milliseconds(50);
    for (Duration left = duration; left > Duration::zero() && !stop.stop_requested();) {
      const Duration now = std::min(left, kStep);
      std::this_thread::sleep_for(now);
      left -= now;
    }
  };
}

Result<std::unique_ptr<ObjectStore>> OpenObjectStore(ObjectStoreOptions options) {
  SHOAL_ASSIGN_OR_RETURN(const ObjectAddress address, ParseObjectAddress(options.address));
  if (!address.bucket.empty()) return OpenS3ObjectStore(std::move(options));
  return NewFolderObjectStore(std::move(options.address), address.folder, std::move(options.stop));
}

}  // namespace shoal::net
