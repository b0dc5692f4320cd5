#include "scheduler/server/store_access.h"

#include <utility>

#include "net/objects/object_address.h"
#include "net/objects/open_object_store.h"

namespace shoal::scheduler {

Result<std::unique_ptr<net::ObjectStore>> OpenStoreOf(const RunConfig& config,
                                                      const StoreAccess& access,
                                                      std::stop_token stop) {
  SHOAL_ASSIGN_OR_RETURN(const net::ObjectAddress address, net::ParseObjectAddress(config.store));
  if (!address.bucket.empty() &&
      (access.credentials.key_id.empty() || access.credentials.secret_key.empty())) {
    return InvalidArgument(config.store +
                           " needs a key; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                           "environment of shoal-scheduler");
  }
  net::ObjectStoreOptions options;
  options.address = config.store;
  options.endpoint = config.store_endpoint;
  options.region = config.store_region;
  options.plain_http = config.store_plain_http;
  options.credentials = access.credentials;
  options.ca_file = access.ca_file;
  options.wait = net::WaitUntil(stop);
  options.stop = std::move(stop);
  return net::OpenObjectStore(std::move(options));
}

}  // namespace shoal::scheduler
