// LinkGreeter stands between an accepted stream and the link that expects it. It reads the hello,
// finds the link, keeps early callers waiting, and refuses the others with a reason.

#ifndef SHOAL_NET_LINKS_LINK_GREETER_H_
#define SHOAL_NET_LINKS_LINK_GREETER_H_

#include <list>
#include <memory>
#include <set>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/links/bulk_stream.h"
#include "net/links/link_core.h"

namespace shoal::net {

// Thread: any.
class LinkGreeter : public std::enable_shared_from_this<LinkGreeter> {
 public:
  LinkGreeter(Duration patience, Executor* executor) : executor_(executor), patience_(patience) {}

  // How long an early caller waits for the link that expects it.
  void set_patience(Duration patience) {
    MutexLock lock(mutex_);
    patience_ = patience;
  }
  // A link that waits to be dialled; takes an early caller at once if there is one.
  void Expect(const std::shared_ptr<LinkCore>& link);
  // A link has become ready for callers that wait.
  void LookAgain();
  // Who may come besides the peers that links expect; a plan names them before there are links.
  void Admit(const std::vector<PeerId>& peers);
  bool Admits(const PeerId& peer);
  // The sink of a new stream, null: too many of them wait.
  std::shared_ptr<StreamSink> Greet(const std::shared_ptr<BulkStream>& stream, const PeerId& peer);
  // Refuses whoever waits, now and later.
  void Stop();

 private:
  struct Caller;
  class CallerSink;

  void OnHello(const std::shared_ptr<Caller>& caller, const ByteSlices& message);
  void Expire(const std::shared_ptr<Caller>& caller);
  void Forget(const std::shared_ptr<Caller>& caller);
  // OK: attached. Unavailable: nobody expects it yet. Else: refused for good.
  Status Match(const Caller& caller) SHOAL_REQUIRES(mutex_);
  void Refuse(const std::shared_ptr<Caller>& caller, const Status& reason);

  Executor* const executor_;
  Mutex mutex_;
  Duration patience_ SHOAL_GUARDED_BY(mutex_);
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<LinkCore>> expected_ SHOAL_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Caller>> callers_ SHOAL_GUARDED_BY(mutex_);
  std::set<PeerId> admitted_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_GREETER_H_
