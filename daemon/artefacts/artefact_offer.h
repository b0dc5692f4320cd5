// ArtefactOffer: uploads to the scheduler what it asks for and this peer has, one file after
// another: parts of checkpoints, and what it lost.

#ifndef SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_
#define SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_

#include <functional>
#include <memory>
#include <vector>

#include "common/executor.h"
#include "common/file.h"
#include "common/status.h"
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
  // refused is left out: the last reason. An upload that breaks is tried again a few times. A new
  // offer takes the place of the former, whose file under way goes on if it is among the new ones,
  // too.
  using Client = std::function<net::ControlClient*()>;
  void Start(Client client, std::vector<storage::ArtefactRef> artefacts,
             std::function<void(Status)> done);
  void Stop();
  // Something is still to be sent.
  bool busy() const;

 private:
  struct State;
  static void Next(const std::shared_ptr<State>& state);
  static void Look(const std::shared_ptr<State>& state, const storage::ArtefactRef& artefact);
  static void Send(const std::shared_ptr<State>& state, const storage::ArtefactRef& artefact,
                   const Result<std::shared_ptr<const MappedFile>>& file);

  Executor* const control_;
  Executor* const store_;
  storage::ContentStore* const content_;
  std::shared_ptr<State> state_;  // shared with callbacks in flight; they check `stopped`
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_ARTEFACT_OFFER_H_
