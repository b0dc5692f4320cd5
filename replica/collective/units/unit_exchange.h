// UnitExchange: the all-gather and reduce-scatter of ZeRO-3. The members of a group own shards of
// the parameters, gather each piece when they need it, and send its gradients to the owners.
//
// Source: FSDP as in Markov et al., "Quantized Distributed Training of Large Models
// with Convergence Guarantees" (QSDP, ICML 2023), section 3. There members move in step, layer by
// layer. Here members pull, owners serve what they have coded once per step, and members wait for
// each other only at a step's end. All members, owners too, decode the same bytes.
//
// A step: any number of Pull and Push, then End; `on_complete` when all members' gradients were
// added up. The owners make their step and call SetStep. Messages of a step that an owner has not
// come to wait at it, within limits.
//
// Gradients are coded with random numbers by (step, micro-batch, part, piece, chunk, members) and
// added by UnitOwner, whose sums must not depend on the order. Thread: control; coding runs on
// `codec`, the owner's part on `compute`.

#ifndef SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "common/task_scope.h"
#include "compression/api/codec.h"
#include "replica/collective/chunk_coder.h"
#include "replica/collective/contribution_check.h"
#include "replica/collective/group_channel.h"
#include "replica/collective/shard_layout.h"
#include "replica/collective/units/unit_message.h"

namespace shoal::collective {

// Values that are gathered together; equal on all members.
struct UnitPiece {
  std::size_t values = 0;  // at least 1
  bool coded = false;      // else weights and gradients travel in fp32
};

// Equal on all members.
struct UnitExchangeConfig {
  std::string weight_codec = compression::kLosslessCodec;
  std::string gradient_codec = compression::kLosslessCodec;
  std::uint32_t row = 1024;                         // shards and chunks begin at multiples
  std::size_t chunk_values = std::size_t{1} << 17;  // of a message, a multiple of `row`
  // Chunks of gradients that may be on their way to owners before CanPush says no, by one push.
  std::size_t ahead_max = 32;
  // Of messages of one member that wait for the step they belong to, 256 more for each.
  std::size_t held_bytes_max = std::size_t{64} << 20;
  // All push gradients by the same weights: one far above the own ones of earlier steps is its
  // sender's fault (contribution_check.h).
  bool alike = false;
  std::uint64_t seed = 0;   // of the run
  std::uint64_t epoch = 0;  // of the membership: the plan's generation
};

// The own shards. Thread: compute, but for Read, which also `codec` may call: no shard changes
// between SetStep and `on_complete`. It outlives the exchange's last task.
class UnitOwner {
 public:
  virtual ~UnitOwner() = default;
  // Values of the own shard, `first` counted in the piece.
  virtual Status Read(UnitVector which, std::size_t piece, std::size_t first,
                      std::span<float> values) = 0;
  // Adds gradients to the sums of the running step.
  virtual Status Add(std::size_t piece, std::size_t first, std::span<const float> gradients) = 0;
};

class UnitExchange {
 public:
  struct Handlers {
    std::function<void()> on_complete;     // once per End
    std::function<void()> on_room;         // CanPush again
    std::function<void(Status)> on_error;  // once, then nothing comes any more
  };
  // `channel`, the only user of which it is, and executors outlive it, `control` also what was
  // posted. An error for an unknown codec or a config out of its range.
  static Result<std::unique_ptr<UnitExchange>> Make(const UnitExchangeConfig& config,
                                                    std::vector<UnitPiece> pieces,
                                                    GroupChannel* channel, Executor* control,
                                                    Executor* compute, Executor* codec,
                                                    std::shared_ptr<UnitOwner> owner,
                                                    Handlers handlers);
  ~UnitExchange();
  UnitExchange(const UnitExchange&) = delete;
  UnitExchange& operator=(const UnitExchange&) = delete;

  // Of a piece, by member.
  const ShardLayout& layout(std::size_t piece) const {
    SHOAL_ASSERT_ON(*control_);
    return layouts_[piece];
  }

  // The own shards are those after `step` steps; first call: ready to serve.
  void SetStep(std::uint64_t step);
  // In the config's place, from the next SetStep on; equal on all members. While nothing is pulled.
  Status SetWeightCodec(const std::string& spec);
  // All of a piece as fp32, of the running step. `done` in a task of its own. One at a time for
  // each piece and vector.
  void Pull(UnitVector which, std::size_t piece, std::function<void(Buffer)> done);
  bool CanPush() const {
    SHOAL_ASSERT_ON(*control_);
    return ahead_ < config_.ahead_max;
  }
  // A micro-batch's gradients of a piece, fp32, each (micro_batch, part, piece) once per step.
  void Push(std::uint32_t micro_batch, std::uint32_t part, std::size_t piece,
            std::shared_ptr<const Buffer> gradients);
  // All gradients of the step were given to Push.
  void End();

  // Members whose messages are awaited, in rank order.
  std::vector<std::size_t> Awaited() const;

 private:
  struct Coders {
    std::shared_ptr<const ChunkCoder> weights, gradients;
  };
  struct Pulling {
    std::shared_ptr<Buffer> values;
    std::vector<std::vector<bool>> have;  // by member, chunk
    std::vector<std::size_t> left;        // by member
    std::size_t decoding = 0;             // and to come
    std::function<void(Buffer)> done;
  };
  struct Held {
    std::size_t from;
    UnitHeader header;
    Buffer message;
  };
  using PullKey = std::pair<UnitVector, std::size_t>;

  UnitExchange(const UnitExchangeConfig& config, std::vector<UnitPiece> pieces, Coders coders,
               std::uint64_t method, GroupChannel* channel, Executor* control, Executor* compute,
               Executor* codec, std::shared_ptr<UnitOwner> owner, Handlers handlers);
  std::size_t size() const { return channel_->size(); }
  std::size_t rank() const { return channel_->rank(); }
  UnitHeader HeaderOf(UnitKind kind) const;
  compression::RandomKey KeyOf(const UnitHeader& header, std::size_t from, std::size_t to) const;
  void Fail(std::size_t from, const Status& status);
  Status CheckHeader(std::size_t from, const UnitHeader& header) const;
  void OnMessage(std::size_t from, Buffer message);
  void Take(std::size_t from, const UnitHeader& header, Buffer message);
  bool MayHold(const Held& held);
  void CodeShard(std::size_t piece);
  void Serve(std::size_t to, UnitVector which, std::size_t piece);
  void SendValues(std::size_t to, const UnitHeader& header);
  void OnValues(std::size_t from, const UnitHeader& header, Buffer message);
  void Decoded(const PullKey& key);
  void AddGradients(std::size_t from, const UnitHeader& header, Buffer message);
  void PushChunk(const UnitHeader& header, std::size_t to, std::shared_ptr<const Buffer> values);
  void Pushed(std::size_t to, const UnitHeader& header, Buffer message);
  void MaybeEnd();
  Status Send(std::size_t to, const UnitHeader& header);

  const UnitExchangeConfig config_;
  const std::vector<UnitPiece> pieces_;
  const std::shared_ptr<const ChunkCoder> exact_;
  Coders coders_;
  const std::uint64_t method_;
  GroupChannel* const channel_;
  Executor* const control_;
  Executor* const compute_;
  Executor* const codec_;
  const std::shared_ptr<UnitOwner> owner_;
  Handlers handlers_;
  std::vector<ShardLayout> layouts_;
  // By piece: the largest of chunks of own gradients, and of those of the steps before.
  std::vector<std::shared_ptr<LargestNorm>> own_norms_;
  std::vector<double> usual_norms_;

  bool ready_ = false, failed_ = false;
  std::uint64_t step_ = 0;
  std::vector<std::vector<std::shared_ptr<const Buffer>>> coded_;  // own weights: piece, chunk
  std::vector<std::vector<std::size_t>> waiting_;  // by piece: who wants its weights
  std::map<PullKey, Pulling> pulls_;
  std::deque<Held> held_;
  std::vector<std::size_t> held_bytes_;  // by member
  std::size_t ahead_ = 0;                // chunks not taken yet
  std::size_t coding_ = 0;               // chunks of pushes that are not sent
  std::size_t adding_ = 0;               // chunks that are being added
  bool ending_ = false, end_sent_ = false;
  std::vector<bool> ended_;  // by member
  TaskScope scope_;          // last: its tasks use what is above
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_EXCHANGE_H_
