// Opens the object store of a run with what the environment gives. Thread: any.

#ifndef SHOAL_SCHEDULER_SERVER_STORE_ACCESS_H_
#define SHOAL_SCHEDULER_SERVER_STORE_ACCESS_H_

#include <memory>
#include <stop_token>
#include <string>

#include "common/status.h"
#include "net/objects/object_store.h"
#include "net/objects/object_store_options.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

struct StoreAccess {
  net::ObjectCredentials credentials;
  std::string ca_file;  // certificates to trust instead of the system's; empty: those
};

// The store of config.store, which is not empty; after `stop` its calls fail. Invalid argument: the
// key for a service is missing. Asks the store nothing.
Result<std::unique_ptr<net::ObjectStore>> OpenStoreOf(const RunConfig& config,
                                                      const StoreAccess& access,
                                                      std::stop_token stop);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_STORE_ACCESS_H_
