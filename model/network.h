// Network: the layers of a stage with the ends it has, for one micro-batch at a time.
//
// Made from a ModelSpec; knows no family. Internal to model/: throws what LibTorch throws. Thread:
// compute.

#ifndef SHOAL_MODEL_NETWORK_H_
#define SHOAL_MODEL_NETWORK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/families/model_spec.h"
#include "model/flat_parameters.h"
#include "model/frozen_parameters.h"
#include "model/stage_model.h"

namespace at {
class Tensor;
}

namespace shoal::model {

class Network {
 public:
  // Opaque: one micro-batch, its inputs on the device and what backward needs.
  struct Kept;
  // Opaque: keys and values of a row that is computed in pieces, by layer.
  struct Row;

  // `values_device`: where activations and their gradients lie, as LibTorch spells it; logits are
  // the host's.
  Network(const ModelSpec& spec, const StageOptions& options, const FlatParameters& parameters,
          const FrozenParameters& frozen, const std::string& values_device);
  ~Network();

  // Copies the inputs. `training`: dropout on.
  std::shared_ptr<Kept> Begin(const MicroBatch& micro_batch, bool training) const;
  // Writes the output, or returns the loss on the last stage. `keep`: for backward.
  double Forward(Kept* kept, bool keep, std::span<float> output) const;
  // The same part by part, for weights that are not all there: parts 0 .. forward_parts() - 1 in
  // order, then each part of the backward. If nothing was kept, the backward begins with the parts
  // of the forward.
  std::size_t forward_parts() const;
  double ForwardPart(Kept* kept, std::size_t part, bool keep, std::span<float> output) const;
  std::size_t backward_parts() const;
  void BackwardPart(Kept* kept, std::size_t part, std::span<const float> output_gradient,
                    std::span<float> input_gradient) const;
  // Runs the forward again first if nothing was kept.
  void BackwardInput(Kept* kept, std::span<const float> output_gradient,
                     std::span<float> input_gradient) const;
  // Parts 0 .. weight_parts() - 1 in order; each frees what only it needed. The last one is that of
  // what all layers share, if there is such.
  std::size_t weight_parts() const;
  void BackwardWeights(Kept* kept, std::size_t part) const;
  // Last stage: logits of all positions, or of each row's last position only; a classifier's of
  // each row.
  void Logits(Kept* kept, bool last_only, std::span<float> logits) const;

  // Whole language models only. Logits at the last of `ids`, which go on the row behind its first
  // `past` tokens; the row forgets what it had there.
  std::shared_ptr<Row> BeginRow() const;
  void ContinueRow(Row* row, std::int64_t past, std::span<const std::int32_t> ids,
                   std::span<float> logits) const;

 private:
  struct Blocks;

  double HeadForward(Kept* kept, const at::Tensor& x, bool keep) const;
  void BeginForward(Kept* kept) const;
  void RunLayer(Kept* kept, std::size_t layer, bool keep) const;

  const std::uint32_t hidden_;
  const StageOptions options_;
  const std::string device_, values_device_;
  std::unique_ptr<Blocks> blocks_;
};

// A stage that computes with one (decoder.h).
class HasNetwork {
 public:
  virtual const Network& network() const = 0;

 protected:
  ~HasNetwork() = default;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_NETWORK_H_
