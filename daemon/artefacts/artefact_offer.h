// ArtefactOffer: uploads to the scheduler what it lost and this peer has, one file after another.

#ifndef SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_
#define SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_

#include <functional>
#include <memory>
#include <vector>

#include "common/executor.h"
#include "net/control/control.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

// Thread: control; the content store is used on the store thread only.
class ArtefactOffer {
 public:
  ArtefactOffer(Executor* control, Executor* store, storage::ContentStore* content);
  ~ArtefactOffer();  // what runs ends without callback

  // `client` gives that of the moment; null: not connected, which ends the offer without callback.
  // `done` runs once, when all that is here and undamaged was sent; what cannot be read or is
  // refused is left out. A new offer ends the former.
  using Client = std::function<net::ControlClient*()>;
  void Start(Client client, std::vector<storage::ArtefactRef> artefacts,
             std::function<void()> done);
  void Stop();

 private:
  struct State;
  static void Next(const std::shared_ptr<State>& state);

  Executor* const control_;
  Executor* const store_;
  storage::ContentStore* const content_;
  std::shared_ptr<State> state_;  // shared with callbacks in flight; they check `stopped`
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_
