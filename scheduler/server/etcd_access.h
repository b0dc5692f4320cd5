// What etcd is told and shown, read from the files that run.toml names. Blocks on disk.

#ifndef SHOAL_SCHEDULER_SERVER_ETCD_ACCESS_H_
#define SHOAL_SCHEDULER_SERVER_ETCD_ACCESS_H_

#include "common/status.h"
#include "net/etcd/etcd.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

// Permission denied: another user can read the key or the password.
Result<net::EtcdAccess> ReadEtcdAccess(const EtcdLogin& login);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_ETCD_ACCESS_H_
