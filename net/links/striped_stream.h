// StripedStream: one to four connections to the same peer that look like one BulkStream.
//
// A single TCP connection does not always fill a fast and long line. A loss halves its window for
// many seconds, and the kernel's send buffer may be smaller than what is under way. A message goes
// out on the first connection ("stripe") that takes one, so that a second stripe is used only while
// the first one is held up. Messages with a sequence number reach the sink in its order, the others
// (hello, accept, ping) as they come. A stripe whose message is too early is not read further, so
// at most one message per stripe waits here.
//
// The first stripe is the stream itself. Whoever dialled the oldest one adds the others (Grow); a
// stripe that cannot be had changes nothing, one that breaks later ends the stream.
//
// Either end may move the stream to a better way (Move): it dials a stripe there and then retires
// those that were open before. Each end says Retire as its last message on a retired stripe and
// answers the other end's; who reads the answer closes the stripe, as nothing is under way on it.

#ifndef SHOAL_NET_LINKS_STRIPED_STREAM_H_
#define SHOAL_NET_LINKS_STRIPED_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/links/bulk_stream.h"

namespace shoal::net {

// Thread: any. Events go to the sink with nothing locked, one OnRead at a time.
class StripedStream final : public BulkStream, public std::enable_shared_from_this<StripedStream> {
 public:
  // By the first of the addresses that answers.
  using DialStripe = std::function<std::shared_ptr<BulkStream>(
      const std::vector<std::string>& addresses, std::shared_ptr<StreamSink>)>;

  static constexpr std::size_t kStripesMax = 4;

  // `executor` must live as long as the streams do.
  static std::shared_ptr<StripedStream> Dial(DialStripe dial,
                                             const std::vector<std::string>& addresses,
                                             Executor* executor, std::shared_ptr<StreamSink> sink);
  // Events come when SetSink was called. `dial` null: no address is known.
  static std::shared_ptr<StripedStream> Accepted(std::shared_ptr<BulkStream> first, DialStripe dial,
                                                 Executor* executor);

  // Dials one more stripe, which says `hello` with its number. False: there are enough, the oldest
  // was not dialled by this end, one is still being dialled, or one was refused before.
  bool Grow(bulk::v1::LinkHello hello);
  // Dials a stripe by one of `addresses`, for `patience` at most (the answer may take as long
  // again), which takes the place of those that are open now. Failing changes nothing. False: one
  // is being dialled.
  bool Move(bulk::v1::LinkHello hello, const std::vector<std::string>& addresses,
            Duration patience);
  // Takes an accepted stream as one more stripe and answers it with `head`. `moves`: it takes the
  // place of others. False: there are enough, or one of the two has ended.
  bool Join(const std::shared_ptr<BulkStream>& stream, std::string head, bool moves);
  // Those that take messages.
  std::size_t stripes() const;
  std::vector<std::string> peer_addresses() const;
  // This end dialled the oldest of them.
  bool dialled() const;
  // Counts how often that which these tell has changed.
  std::uint64_t changes() const;

  bool SetSink(std::shared_ptr<StreamSink> sink) override;
  void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
             std::size_t size) override;
  void Read() override;
  void Close(const Status& reason) override;
  std::string address() const override;
  std::string peer_address() const override;

 private:
  class StripeSink;
  enum class StripeState { kDialling, kGreeting, kOpen, kRetiring, kGone };
  struct Held {
    std::uint64_t sequence = 0;
    std::vector<std::byte> bytes;
  };
  struct Stripe {
    std::shared_ptr<BulkStream> stream;
    std::uint64_t born = 0;  // counts stripes; slots are used again
    StripeState state = StripeState::kOpen;
    bool first = false;    // of the stream: the sink is told that it is open
    bool dialled = false;  // by this end
    bool moves = false;    // when it is open, those that are `replaced` retire
    bool replaced = false;
    // Accepted by this end, and nothing has gone over it: the other end may have given it up.
    bool untried = false;
    bool writing = false;
    bool reading = false;
    bool ended = false;             // the other end writes nothing more
    std::deque<std::string> notes;  // Retire, to be written when nothing else is
    std::optional<Held> held;       // came too early, or while the sink wanted nothing
    bulk::v1::LinkHello hello{};    // to be said, while dialling
  };
  struct Outgoing {
    std::string head;
    std::shared_ptr<const Buffer> payload;
    std::size_t offset = 0, size = 0;
  };

  StripedStream(DialStripe dial, Executor* executor)
      : dial_(std::move(dial)), executor_(executor) {}

  void OnStripeOpen(std::size_t index);
  void OnStripeRead(std::size_t index, const ByteSlices& message);
  void OnStripeWritten(std::size_t index);
  void OnStripeGone(std::size_t index, const Status& status);
  void OnAnswer(Stripe* stripe, bool accepted) SHOAL_REQUIRES(mutex_);
  void End(const Status& reason) SHOAL_REQUIRES(mutex_);
  // The end by what the other end did wrong; returns who is to be told.
  std::shared_ptr<StreamSink> Fail() SHOAL_REQUIRES(mutex_);

  // A place for one more; nullopt: there is none. The index stays its own until it is gone.
  std::optional<std::size_t> NewStripe() SHOAL_REQUIRES(mutex_);
  bool DialStripeAt(const std::vector<std::string>& addresses, bulk::v1::LinkHello hello,
                    bool moves) SHOAL_REQUIRES(mutex_);
  // The oldest open one; null: none.
  const Stripe* Front() const SHOAL_REQUIRES(mutex_);
  std::size_t OpenStripes() const SHOAL_REQUIRES(mutex_);
  bool Dialling() const SHOAL_REQUIRES(mutex_);
  void EndMoveAfter(Duration patience, std::uint64_t born, StripeState from);
  void RetireReplaced() SHOAL_REQUIRES(mutex_);
  void Note(Stripe* stripe, bool seen) SHOAL_REQUIRES(mutex_);
  void WriteNotes(Stripe* stripe) SHOAL_REQUIRES(mutex_);
  // False: the other end may not say that now.
  bool OnRetire(Stripe* stripe, bool seen) SHOAL_REQUIRES(mutex_);

  static bool IsFree(const Stripe& stripe) {
    return stripe.state == StripeState::kOpen && !stripe.writing;
  }
  bool CanWrite() const SHOAL_REQUIRES(mutex_);
  bool IsNext(std::uint64_t sequence) const SHOAL_REQUIRES(mutex_) {
    return sequence <= next_;  // a number that was there already is for the sink to refuse
  }
  Stripe* HoldsNext() SHOAL_REQUIRES(mutex_);
  bool Misses() const SHOAL_REQUIRES(mutex_);
  void Take(std::uint64_t sequence) SHOAL_REQUIRES(mutex_);
  void Taken();
  void ReadStripes() SHOAL_REQUIRES(mutex_);
  // Tells the sink that a write is done, if it waits for that and another one is possible.
  void TellWritten();
  void PostWritten();
  void WriteWaiting() SHOAL_REQUIRES(mutex_);
  void Deliver();

  const DialStripe dial_;  // null: accepted
  Executor* const executor_;
  mutable Mutex mutex_;
  std::shared_ptr<StreamSink> sink_ SHOAL_GUARDED_BY(mutex_);
  std::vector<Stripe> stripes_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  bool told_gone_ SHOAL_GUARDED_BY(mutex_) = false;
  bool refused_ SHOAL_GUARDED_BY(mutex_) = false;  // a stripe was, but for those that move
  bool owed_ SHOAL_GUARDED_BY(mutex_) = false;     // an OnWritten
  // The sink's one message, where the stripe that was free when OnWritten came has retired since.
  std::optional<Outgoing> waiting_ SHOAL_GUARDED_BY(mutex_);
  bool wanted_ SHOAL_GUARDED_BY(mutex_) = false;      // the sink wants a message
  bool delivering_ SHOAL_GUARDED_BY(mutex_) = false;  // one is with the sink
  std::uint64_t next_ SHOAL_GUARDED_BY(mutex_) = 1;   // sequence number to be delivered
  std::uint64_t changes_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_born_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_STRIPED_STREAM_H_
