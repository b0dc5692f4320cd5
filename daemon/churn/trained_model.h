// TrainedModel: what a run of GPT2-XL takes of time, lines and disks, and its scheduler's settings.
//
// Sizes are those of the model's tensors in the scheduler's own cuts. Times are those of
// `shoal-bench pipeline` (table 5 of the AQ-SGD paper): 45 ms forward and 135 ms backward, half of
// it for the weights, for six layers and one row of 1024 tokens; that is 8 TFLOP/s, a consumer's
// card in fp32. Bits of the default codecs are those of docs/quality, four stages, plain. Pure.
// Thread: any.

#ifndef SHOAL_DAEMON_CHURN_TRAINED_MODEL_H_
#define SHOAL_DAEMON_CHURN_TRAINED_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "common/units.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"

namespace shoal::daemon {

struct ChurnSettings {
  std::uint32_t stages = 4, pipelines = 0;
  std::uint32_t micro_batches = 32;  // per step and pipeline, of one row
  std::uint64_t train_rows = 16384;
  std::uint64_t checkpoint_every = 0;  // chosen as in a run
  std::uint32_t rank = 4;              // of powersgd, which pipelines exchange gradients with
  BitsPerSecond upload{20'000'000}, download{100'000'000}, scheduler{1'000'000'000};
  Duration latency = std::chrono::milliseconds(20);  // one way
  // How machines go: their connections break at once, or they are just silent.
  bool silent = false;
  std::uint64_t seed = 1;
};

struct StageCosts {
  double forward_ms = 0, backward_input_ms = 0, backward_weights_ms = 0;  // per micro-batch
  double exchange_bytes = 0;  // of what a member of the stage group contributes
  double state_bytes = 0;     // weights and two moments
};

struct TrainedModel {
  scheduler::RunConfig config;
  std::map<std::string, control::v1::ArtefactRef> initial;
  std::map<std::string, std::uint64_t> part_bytes;  // weights
  std::vector<StageCosts> stages;
  // Messages of a micro-batch over a boundary: a change of m, a first visit, a gradient.
  double change_bytes = 0, first_bytes = 0, gradient_bytes = 0;
};

inline constexpr double kChangeBits = 2.3, kFirstBits = 4.3, kGradientBits = 2.85;

Result<TrainedModel> MakeGpt2Xl(const ChurnSettings& settings);

// Of a part after so many applied steps; members of a stage group hold the same.
std::string ArtefactHash(const std::string& name, std::uint64_t step);
std::uint64_t StepOfHash(const std::string& hash);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_TRAINED_MODEL_H_
