// Standby: a scheduler that does not lead. Peers cannot reach it; its status page and its local
// door say who leads. It reads the history as it grows, and fetches the files of each checkpoint
// from the leader, so that it can go on from there.
//
// Thread: its executor, on which it also blocks on etcd and disk.

#ifndef SHOAL_SCHEDULER_SERVER_STANDBY_H_
#define SHOAL_SCHEDULER_SERVER_STANDBY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "net/control/control.h"
#include "net/control/local_control.h"
#include "net/etcd/etcd.h"
#include "net/http/http_server.h"
#include "net/identity/identity.h"
#include "net/pacing/rate_limiter.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/server/run_status.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

class Standby {
 public:
  struct Parts {
    std::shared_ptr<net::Etcd> etcd;
    std::shared_ptr<const net::Identity> identity;  // the one that all schedulers of the run have
    std::string join_secret;
    ArtefactMap initial;  // of the fresh model; kept
    storage::ContentStore* content = nullptr;
    std::function<std::string()> leader;  // for people
    std::function<std::optional<TimePoint>()> leader_seen;
    std::function<void()> on_stop;  // somebody ordered this scheduler to end
  };
  Standby(const RunConfig& config, Executor* executor, Parts parts);
  ~Standby();

  // Listens for the machine's own people, and writes `status.addr` and `scheduler.sock`.
  Status Open();
  // What is new; once a second or so.
  void Look();

 private:
  StandbyView View() const;
  std::string Page() const;
  net::HttpResponse Serve(const std::string& path) const;
  Status ReadNews();
  void Dial();
  void FetchNext();
  void Fetched(const control::v1::ArtefactRef& file, Status status);
  void DropClient();

  const RunConfig config_;
  Executor* const executor_;
  const Parts parts_;
  const std::shared_ptr<net::RateLimiter> unlimited_;
  const TimePoint opened_;
  std::uint64_t next_event_ = 1;
  std::vector<control::v1::ArtefactRef> checkpoint_;  // the newest complete one's files
  std::deque<control::v1::ArtefactRef> missing_;      // of these
  bool pruned_ = true;                                // nothing else is kept
  bool open_ = false, fetching_ = false;
  std::shared_ptr<bool> live_;  // false: callbacks of a client that is gone
  std::unique_ptr<net::ControlClient> client_;
  std::unique_ptr<net::LocalServer> local_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_STANDBY_H_
