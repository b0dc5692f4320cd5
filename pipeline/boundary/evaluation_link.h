// EvaluationLink: one end of a boundary's traffic for held-out loss (docs/WIRE.md, kEvaluation).
//
// The lower stage's end sends the activations of validation rows, one frame per micro-batch, as
// 16-bit floats: they are visited too rarely for AQ-SGD's m, and the loss is to be that of the
// weights and not of a codec. The upper stage's end takes them in order and acknowledges each,
// which bounds what waits there. Frames may overtake each other. Thread: control.

#ifndef SHOAL_PIPELINE_BOUNDARY_EVALUATION_LINK_H_
#define SHOAL_PIPELINE_BOUNDARY_EVALUATION_LINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "net/links/generation_links.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

// What the activations of validation rows travel in.
inline constexpr char kEvaluationCodec[] = "raw:dtype=fp16";
// Micro-batches that may be sent and not yet taken.
inline constexpr std::uint32_t kEvaluationAhead = 4;

// A micro-batch on its way: a message of kEvaluationCodec, or nothing where the activation holds a
// value that is not finite. Then its loss is not finite either, and no stage needs the values.
using EvaluationMessage = std::optional<Buffer>;

class EvaluationLink {
 public:
  struct Config {
    bool sender = false;  // the lower stage's end
    compression::SampleShape sample;
    std::uint32_t rows = 1;  // of a micro-batch, at most
  };
  using Send = std::function<Status(net::Frame)>;

  // `generation` and `links` outlive it.
  EvaluationLink(const Config& config, Generation* generation, const net::GenerationLinks* links,
                 Send send)
      : config_(config), generation_(generation), links_(links), send_(std::move(send)) {}

  // Failed precondition if something of the step before was not taken.
  Status StartStep(const StepPlan& plan);
  // Of the running step, from the other end; an error is its fault.
  Status OnFrame(net::Frame frame);
  // Most bytes of a frame's payload.
  std::size_t bytes_max() const;

  // Lower end: whether the next micro-batch may be sent, and sends it.
  bool HasRoom() const {
    SHOAL_ASSERT_ON(generation_->control());
    return sent_ - acknowledged_ < kEvaluationAhead;
  }
  Status Put(EvaluationMessage message);

  // Upper end: whether the next micro-batch has arrived, and takes it.
  bool HasNext() const {
    SHOAL_ASSERT_ON(generation_->control());
    return arrived_.contains(taken_);
  }
  Result<EvaluationMessage> Take();

 private:
  Status OnAcknowledged(const net::Frame& frame);
  Status OnMessage(net::Frame frame);
  net::Frame NewFrame(std::uint32_t micro_batch) const;

  const Config config_;
  Generation* const generation_;
  const net::GenerationLinks* const links_;
  const Send send_;
  std::uint64_t step_ = 0;
  std::uint32_t micro_batches_ = 0;  // of the running step
  std::uint32_t sent_ = 0;           // lower end: so many, and how many of them were taken
  std::uint32_t acknowledged_ = 0;
  std::uint32_t taken_ = 0;                             // upper end
  std::map<std::uint32_t, EvaluationMessage> arrived_;  // not yet taken, by micro-batch
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_EVALUATION_LINK_H_
