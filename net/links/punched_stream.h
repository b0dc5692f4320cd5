// PunchedStream: one stream to a peer over a connection that both ends make to each other through
// their routers, as a relay helps them to (net/relay/punch_rules.h). It waits for the connection,
// then is the stream that gRPC has on it.

#ifndef SHOAL_NET_LINKS_PUNCHED_STREAM_H_
#define SHOAL_NET_LINKS_PUNCHED_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/links/bulk_stream.h"
#include "net/relay/relay_door.h"

namespace shoal::net {

// The way to the door, for streams that are dialled on any thread; the door may go. Thread: any.
class PunchWay {
 public:
  // `door`, which outlives its use here, or null: there is none, or no more.
  void Use(RelayDoor* door);
  // False: there is no door; else `done` runs on the door's thread.
  bool Punch(const RelayAddress& relay, const PeerId& peer, PunchDone done);

 private:
  Mutex mutex_;
  RelayDoor* door_ SHOAL_GUARDED_BY(mutex_) = nullptr;
};

// Thread: any. Events go to the sink with nothing locked.
class PunchedStream final : public BulkStream, public std::enable_shared_from_this<PunchedStream> {
 public:
  // A stream to a port of this machine.
  using DialEntry = std::function<std::shared_ptr<BulkStream>(const std::string& address,
                                                              std::shared_ptr<StreamSink>)>;

  // By `address`, which is PunchAddress's. OnOpen or OnGone follows, never within the call.
  static std::shared_ptr<BulkStream> Dial(const std::string& address, const PeerId& peer,
                                          PunchWay* way, DialEntry dial, Executor* executor,
                                          std::shared_ptr<StreamSink> sink);

  bool SetSink(std::shared_ptr<StreamSink> sink) override;
  void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
             std::size_t size) override;
  void Read() override;
  void Close(const Status& reason) override;
  // By which another connection is made.
  std::string address() const override { return address_; }
  std::string peer_address() const override;

 private:
  PunchedStream(std::string address, DialEntry dial, Executor* executor,
                std::shared_ptr<StreamSink> sink)
      : address_(std::move(address)),
        dial_(std::move(dial)),
        executor_(executor),
        sink_(std::move(sink)) {}

  void OnPunched(const Result<PunchedWay>& way);
  void PostGone(const Status& reason) SHOAL_REQUIRES(mutex_);
  std::shared_ptr<BulkStream> stream() const;

  const std::string address_;
  const DialEntry dial_;
  Executor* const executor_;
  mutable Mutex mutex_;
  std::shared_ptr<StreamSink> sink_ SHOAL_GUARDED_BY(mutex_);  // null: the stream has it
  std::shared_ptr<BulkStream> stream_ SHOAL_GUARDED_BY(mutex_);
  std::string other_end_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;  // before there was a stream
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_PUNCHED_STREAM_H_
