// LostArtefacts: artefacts that the run needs and of which the server has no whole copy, and which
// peers have already offered all they have of them. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_LOST_ARTEFACTS_H_
#define SHOAL_SCHEDULER_HISTORY_LOST_ARTEFACTS_H_

#include <set>
#include <string>

#include "common/ids.h"
#include "scheduler/history/artefact_map.h"

namespace shoal::scheduler {

class LostArtefacts {
 public:
  bool empty() const { return lost_.empty(); }
  const ArtefactMap& by_hash() const { return lost_; }
  bool Contains(const std::string& hash) const { return lost_.contains(hash); }

  // All peers are to be asked again.
  void Add(const ArtefactMap& by_hash);
  // One is whole again. True: it was the last.
  bool Found(const std::string& hash);
  // Forgets all that the run does not need any more.
  void KeepOnly(const ArtefactMap& needed_by_hash);

  // A peer is asked, or has uploaded all that it has.
  void Asked(const PeerId& peer) { offered_.erase(peer); }
  void Offered(const PeerId& peer) { offered_.insert(peer); }
  bool HasOffered(const PeerId& peer) const { return offered_.contains(peer); }

  // "2 artefacts are damaged or gone at the scheduler (a, b)"
  std::string Describe() const;

 private:
  ArtefactMap lost_;  // by hash
  std::set<PeerId> offered_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_LOST_ARTEFACTS_H_
