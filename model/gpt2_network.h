// Gpt2Network: embeddings, layers and head of one stage over host spans.
//
// The border between spans and tensors. Internal to model/: throws what LibTorch throws; callers
// have checked sizes and ids. Thread: compute.

#ifndef SHOAL_MODEL_GPT2_NETWORK_H_
#define SHOAL_MODEL_GPT2_NETWORK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/flat_parameters.h"
#include "model/gpt2_block.h"
#include "model/gpt2_head.h"
#include "model/stage_model.h"

namespace shoal::model {

class Gpt2Network {
 public:
  // Opaque: one micro-batch, its inputs on the device and what backward needs.
  struct Kept;

  Gpt2Network(const storage::ModelConfig& config, const StageOptions& options,
              const FlatParameters& parameters);
  ~Gpt2Network();

  // Copies the inputs to the device. `training`: dropout on.
  std::shared_ptr<Kept> Begin(const MicroBatch& micro_batch, bool training) const;
  // Writes the output, or returns the loss on the last stage. `keep`: for backward.
  double Forward(Kept* kept, bool keep, std::span<float> output) const;
  // The same part by part, for weights that are not all there: parts 0 .. forward_parts() - 1 in
  // order, then each part of the backward. If nothing was kept, the backward begins with the parts
  // of the forward.
  std::size_t forward_parts() const;
  double ForwardPart(Kept* kept, std::size_t part, bool keep, std::span<float> output) const;
  std::size_t backward_parts() const { return (head_ ? 1u : 0u) + blocks_.size(); }
  void BackwardPart(Kept* kept, std::size_t part, std::span<const float> output_gradient,
                    std::span<float> input_gradient) const;
  // Runs the forward again first if nothing was kept.
  void BackwardInput(Kept* kept, std::span<const float> output_gradient,
                     std::span<float> input_gradient) const;
  // Parts 0 .. weight_parts() - 1 in order; each frees what only it needed.
  std::size_t weight_parts() const;
  void BackwardWeights(Kept* kept, std::size_t part) const;
  // Last stage: logits of all positions, or of each row's last position only.
  void Logits(Kept* kept, bool last_only, std::span<float> logits) const;

  // Upper bound of what a micro-batch keeps, in bytes.
  std::uint64_t KeptBytes(std::uint64_t rows, std::uint64_t tokens) const;
  // Likewise, between the halves of the backward.
  std::uint64_t PendingBytes(std::uint64_t rows, std::uint64_t tokens) const;

 private:
  struct Embedding;

  at::Tensor Embed(Kept* kept) const;
  at::Tensor RunBlocks(Kept* kept, bool keep) const;
  void RunBlock(Kept* kept, std::size_t block, bool keep) const;
  std::uint64_t HeadBytes(std::uint64_t tokens_in_all) const;  // beside the blocks' and the inputs'

  const storage::ModelConfig config_;
  const StageOptions options_;
  const std::string device_;
  std::unique_ptr<Embedding> embedding_;  // first stage only
  std::vector<Gpt2Block> blocks_;
  std::unique_ptr<Gpt2Head> head_;  // last stage only
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_GPT2_NETWORK_H_
