// ArtefactFetcher: brings artefacts from the scheduler into the content store, one after another,
// resuming what an earlier attempt left.

#ifndef SHOAL_DAEMON_ARTEFACTS_ARTEFACT_FETCHER_H_
#define SHOAL_DAEMON_ARTEFACTS_ARTEFACT_FETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "net/control/control.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

struct FetchProgress {
  std::uint64_t bytes_done = 0;  // of artefacts that are complete or arriving
  std::uint64_t bytes_total = 0;
};

// Thread: control; the content store is used on the store thread only.
class ArtefactFetcher {
 public:
  ArtefactFetcher(Executor* control, Executor* store, storage::ContentStore* content);
  ~ArtefactFetcher();  // the running fetch ends without callback

  // The connection to fetch over, as it is whenever a fetch begins; null: there is none, which ends
  // the fetch with an error.
  using Client = std::function<net::ControlClient*()>;
  // `done` runs once, but for a connection that goes away amid an artefact: then never.
  void Start(Client client, std::vector<storage::ArtefactRef> artefacts,
             std::function<void(Status)> done);
  FetchProgress progress() const;

 private:
  struct State;
  static void Next(const std::shared_ptr<State>& state);
  static void Fetch(const std::shared_ptr<State>& state, std::uint64_t offset);
  static void Finish(const std::shared_ptr<State>& state);
  static void Done(const std::shared_ptr<State>& state, Status status);

  Executor* const control_;
  Executor* const store_;
  storage::ContentStore* const content_;
  std::shared_ptr<State> state_;  // shared with callbacks in flight; they check `stopped`
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_ARTEFACT_FETCHER_H_
