// RacingStream: one stream to a peer that is known under several addresses. They are dialled a
// moment apart, nearest first, and the first that answers wins; those of relays begin later, so
// that a direct way wins where there is one. An address where nobody answers, a private one of
// another home say, costs no time. A peer that answers and refuses ends the race: it is reached.

#ifndef SHOAL_NET_LINKS_RACING_STREAM_H_
#define SHOAL_NET_LINKS_RACING_STREAM_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/links/bulk_stream.h"

namespace shoal::net {

// Thread: any. Events go to the sink with nothing locked.
class RacingStream final : public BulkStream, public std::enable_shared_from_this<RacingStream> {
 public:
  using DialOne = std::function<std::shared_ptr<BulkStream>(const std::string& address,
                                                            std::shared_ptr<StreamSink>)>;

  static constexpr std::chrono::milliseconds kNextAfter{200};
  static constexpr std::chrono::milliseconds kRelaysAfter{1000};

  // OnOpen or OnGone follows. At least one address. `executor` lives as long as the streams do.
  static std::shared_ptr<BulkStream> Dial(DialOne dial, const std::vector<std::string>& addresses,
                                          Executor* executor, std::shared_ptr<StreamSink> sink);

  bool SetSink(std::shared_ptr<StreamSink> sink) override;
  void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
             std::size_t size) override;
  void Read() override;
  void Close(const Status& reason) override;
  // The winner's; before, all of them, for people.
  std::string address() const override;
  std::string peer_address() const override;

 private:
  class AttemptSink;
  struct Attempt {
    std::string address;
    std::chrono::milliseconds after{0};
    std::shared_ptr<BulkStream> stream;  // null: not begun, or gone
    bool begun = false;
  };

  RacingStream(DialOne dial, std::shared_ptr<StreamSink> sink)
      : dial_(std::move(dial)), sink_(std::move(sink)) {}

  void Begin(std::size_t index);
  void BeginLocked(std::size_t index) SHOAL_REQUIRES(mutex_);
  // Those that wait for their turn begin now, in order: nothing else is under way.
  void BeginNext() SHOAL_REQUIRES(mutex_);
  void EndAll(const Status& reason) SHOAL_REQUIRES(mutex_);
  bool UnderWay() const SHOAL_REQUIRES(mutex_);
  void OnAttemptOpen(std::size_t index);
  void OnAttemptGone(std::size_t index, const Status& status);
  std::shared_ptr<BulkStream> winner() const;
  std::shared_ptr<StreamSink> sink() const;

  const DialOne dial_;
  mutable Mutex mutex_;
  std::shared_ptr<StreamSink> sink_ SHOAL_GUARDED_BY(mutex_);
  std::vector<Attempt> attempts_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<BulkStream> winner_ SHOAL_GUARDED_BY(mutex_);
  Status failure_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  bool told_gone_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_RACING_STREAM_H_
