// ReplicatedServer: one of several schedulers of a run whose history is in etcd. It stands by until
// it leads, serves the run as SchedulerServer does, and stands by again when it has lost the lead.
//
// Thread: main opens and closes it; one thread of its own does the rest.

#ifndef SHOAL_SCHEDULER_SERVER_REPLICATED_SERVER_H_
#define SHOAL_SCHEDULER_SERVER_REPLICATED_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/status.h"
#include "net/etcd/etcd.h"
#include "net/identity/identity.h"
#include "scheduler/config/run_config.h"
#include "scheduler/election/candidate.h"
#include "scheduler/server/run_artefacts.h"
#include "scheduler/server/server.h"
#include "scheduler/server/standby.h"
#include "scheduler/server/store_access.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

class ReplicatedServer {
 public:
  struct Handlers {
    std::function<void(SchedulerServer&)> on_lead;  // each time it begins to lead
    // It wants to end: OK after an order, else the reason.
    std::function<void(Status)> on_stop;
  };
  // Failed precondition: this folder has a history of its own, or another key or secret than the
  // other schedulers of the run have.
  static Result<std::unique_ptr<ReplicatedServer>> Open(const RunConfig& config,
                                                        const StoreAccess& access,
                                                        Handlers handlers);
  ~ReplicatedServer();  // gives up the lead

 private:
  ReplicatedServer(const RunConfig& config, const StoreAccess& access, Handlers handlers);

  Status Join();
  Status StandBy();
  void Changed();
  Status TakeOver();
  void Stopped(const Status& status);
  void LookAgain();
  void End(const Status& status);

  const RunConfig given_;
  const StoreAccess access_;
  const Handlers handlers_;
  RunConfig config_;  // with what model and data say
  bool ended_ = false;
  int failed_leads_ = 0;  // in a row
  std::shared_ptr<net::Etcd> etcd_;
  std::shared_ptr<const net::Identity> identity_;
  std::string join_secret_;
  RunArtefacts artefacts_;
  std::unique_ptr<storage::ContentStore> content_;
  std::unique_ptr<Candidate> candidate_;
  std::unique_ptr<Standby> standby_;         // null: it leads
  std::unique_ptr<SchedulerServer> server_;  // null: it stands by
  std::unique_ptr<Executor> thread_;         // last
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_REPLICATED_SERVER_H_
