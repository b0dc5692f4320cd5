// The experiment of `./x bench quality`: a small GPT-2 is trained on one text, then fine-tuned on
// another. A pipeline of real StageRunners does this, with links in this process.
//
// One thread, virtual time (tests/support/sim_swarm.h): equal specs on equal machines give equal
// figures. Set-up: docs/quality/README.md.

#ifndef SHOAL_TESTS_QUALITY_EXPERIMENT_H_
#define SHOAL_TESTS_QUALITY_EXPERIMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/quality/boundary_shape.h"

namespace shoal::quality {

struct ModelShape {
  std::uint32_t layers = 4, hidden = 128, heads = 4;
  std::string tokenizer;  // folder of a byte-level BPE; empty: token ids are bytes
  std::string device = "cpu";
  int threads = 1;
};

struct BaseSpec {
  ModelShape model;
  std::string wikitext, wikitext_validation, shakespeare;  // plain text files
  std::uint64_t first_steps = 2000, second_steps = 800;    // 0: no second phase
  double first_rate = 2e-3, second_rate = 1e-3;
  std::uint64_t first_warmup = 100, second_warmup = 0;
  std::string first_decay = "none", second_decay = "none";  // as in a run file
  // The first phase is kept every so many steps, and goes on from there; 0: not at all.
  std::uint64_t save_every = 0;
  std::string folder;  // receives init/ (fresh weights), wikitext/ and base/, one file per part
};

struct BaseFigures {
  double wikitext_loss = 0;     // nats per token on validation text after the first phase
  double shakespeare_loss = 0;  // on the held-out windows, after both
};

Result<BaseFigures> TrainBase(const BaseSpec& spec);

struct RowSpec {
  ModelShape model;
  std::uint32_t stages = 4, pipelines = 1;
  std::string replica = "average";  // how pipelines agree, as in a run file
  std::string weights;              // folder of part files to start from
  std::string shakespeare;
  std::string forward, backward;      // codec specs
  std::string first_epoch_backward;   // empty: as `backward`
  std::uint32_t micro_batches = 2;    // per step of 16 samples: 1, 2, 4, 8 or 16
  std::uint64_t rows = 640;           // samples of an epoch, a multiple of 16
  std::uint64_t held_out_rows = 128;  // 2 or more
  std::uint64_t epochs = 8;
  double learning_rate = 3e-4;
  std::uint64_t seed = 1;  // order of samples
  double dropout = 0;
  bool fresh_masks = false;
  std::string compute = "fp32";  // or bf16
};

struct EpochFigures {
  double train_loss = 0;     // mean of its steps, codecs on
  double held_out_loss = 0;  // after it, uncompressed activations
  // Bytes on the wire, over all boundaries: frame and chunk headers, TLS and TCP included.
  std::uint64_t forward_bytes = 0, backward_bytes = 0, other_bytes = 0;
  // The same inside stage groups, over all members; and what fp32 sums would have sent, as payload.
  std::uint64_t replica_bytes = 0, replica_raw_bytes = 0;
  std::uint64_t values = 0;  // that crossed a boundary forward
  // Over all boundaries: |x - m| / |x|, and |x - received| / |x|.
  std::optional<double> delta_norm, received_error;
  std::optional<double> gradient_error;  // |g - received| / |g|
  // Part of the gradients sent as low rank; correlation of consecutive activations and whether
  // errors are passed on after the epoch, a mean over the boundaries. Only with lowrank.
  std::optional<double> low_rank_part, correlation, lazy;
  std::vector<std::string> delta_modes;  // of each boundary's sender after the epoch
  // By boundary: a few training rows, uncompressed, and what changed since the epoch before.
  std::vector<BoundaryShape> boundaries;
};

struct RowFigures {
  std::string device;  // that the stages computed on
  double held_out_before = 0;
  std::vector<EpochFigures> epochs;
  std::uint64_t delta_hits = 0, first_visits = 0, resends = 0, mismatches = 0;
};

Result<RowFigures> TrainRow(const RowSpec& spec);

}  // namespace shoal::quality

#endif  // SHOAL_TESTS_QUALITY_EXPERIMENT_H_
