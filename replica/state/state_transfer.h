// StateTransfer: how a shadow gets the state of its stage from the members of its group that hold
// it, while these train.
//
// The shadow takes part in every step's exchange and applies what is agreed, with a model that
// holds nothing right at first. It asks all holders for chunks at once. A chunk is read between two
// applied steps and says how many it holds; the shadow writes it while its own model is at the same
// count, and from then on every step keeps it right, as the optimizer works value by value. One
// that comes too late for that is asked for again, in smaller pieces. Chunks
// go ahead of all that the group exchanges, or a step's end would overtake them on a slow line. So
// a holder rests after each, and all chunks together take the share of its upload that
// state_share.h gives. Thread: control; values are read and written on compute.

#ifndef SHOAL_REPLICA_STATE_STATE_TRANSFER_H_
#define SHOAL_REPLICA_STATE_STATE_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/memory/buffer.h"
#include "common/task_scope.h"
#include "replica/collective/group_channel.h"
#include "replica/member.h"
#include "replica/state/missing_values.h"
#include "replica/state/state_message.h"

namespace shoal::replica {

class StateTransfer {
 public:
  struct Options {
    std::vector<std::size_t> holders;  // of the group: who holds the stage's state
    std::size_t state_size = 0;        // values of each flat vector
    std::size_t shadows = 1;           // other members, who lack it
    bool shadow = false;               // this member; else it is a holder
    MissingValues missing;             // of a shadow
    std::size_t chunk_values_max = kChunkValuesMax;
    // Applied steps that the model holds, where no task that changes its weights is posted; nothing
    // while the optimizer is at work.
    std::function<std::optional<std::uint64_t>()> steps_held;
    // Of the group, for who sends what it may not; null: the peers have no names.
    std::function<const PeerId*(std::size_t member)> peer = {};
    // Nothing is missing any more. A task of its own.
    std::function<void()> on_complete;
  };
  // `member` and `channel`, whose only user it is, outlive it. What it has posted ends with it.
  StateTransfer(Member* member, collective::GroupChannel* channel, Options options);
  ~StateTransfer();

  // The links are open.
  void Start();
  // The model has made a step.
  void OnApplied();
  // Members have left the generation: what they were asked for others are asked for.
  void Leave(std::span<const std::uint32_t> members);

  // Not yet here; chunks that are on their way included.
  MissingValues missing() const;
  std::uint64_t bytes_wanted() const;
  std::uint64_t bytes_here() const;

 private:
  struct Asked {
    std::size_t holder = 0;
    ValueRun run;
  };
  struct Chunk {
    std::size_t from = 0;
    StateMessage header;
    std::shared_ptr<Buffer> bytes;
  };
  struct Request {
    std::size_t from = 0;
    StateMessage wanted;
    TimePoint due{};
  };
  void OnMessage(std::size_t from, Buffer payload);
  void OnRequest(std::size_t from, const StateMessage& request);
  void OnChunk(std::size_t from, const StateMessage& header, Buffer bytes);
  void Ask();
  void Serve();
  void Read(const Request& request);
  void Judge();
  void Write(Chunk chunk);
  void OnWritten(const ValueRun& run, const Status& status);
  void Again(const ValueRun& run);
  void Fail(std::size_t from, const Status& status);

  Member* const member_;
  collective::GroupChannel* const channel_;
  const Options options_;
  std::vector<std::size_t> holders_;            // that have not left
  MissingValues missing_;                       // not asked for
  std::map<std::size_t, Asked> asked_;          // by first value: no chunk came yet
  std::deque<Chunk> waiting_;                   // of steps that the own model has not made yet
  std::map<std::size_t, std::size_t> writing_;  // first, values
  std::size_t chunk_values_;
  bool complete_ = false;
  std::deque<Request> requests_;             // one of each shadow at most
  std::map<std::size_t, TimePoint> served_;  // when a shadow's last chunk was sent
  bool reading_ = false;
  TaskScope scope_;  // last: its tasks use what is above
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STATE_STATE_TRANSFER_H_
