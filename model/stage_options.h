// What a stage is made of: which layers, on which device, in which precision, what of its state it
// holds.

#ifndef SHOAL_MODEL_STAGE_OPTIONS_H_
#define SHOAL_MODEL_STAGE_OPTIONS_H_

#include <cstdint>
#include <string>

namespace shoal::model {

// Layers [first_layer, last_layer); embeddings when first_layer == 0, head when last_layer == all.
struct StageRange {
  std::uint32_t first_layer = 0;
  std::uint32_t last_layer = 0;
  bool operator==(const StageRange&) const = default;
};

struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // not on tensors of one dimension: biases and layer norms
  double clip_norm = 1.0;      // global norm; 0: no clipping
};

// What of its state a stage holds in memory, from the beginning.
enum class ZeroMode : std::uint8_t {
  kNone,
  // Weights and gradients: the moments are in shards with the members of a stage group
  // (replica/qsdp_step.cc). Read of a moment gives what Load found in files, zeros where it found
  // none. Write of a moment goes to files in `state_folder`, each value once before Save, which
  // moves them. Apply is an error.
  kZero1,
  // What HoldUnit gave memory to, unit by unit: all else is in shards (replica/zero3_step.cc).
  // Weights that are not held are read and written as moments are above. Save wants them written,
  // too; WeightChecksum is of what was written, 0 if something is missing. Evaluate, Logits, norms
  // and LoadDirectory are errors or must not be called.
  kZero3,
  // Weights alone: a quarter of all. Evaluate, Logits, Decoder and what reads, loads or saves
  // weights; all else is an error or must not be called.
  kWeights,
};

struct StageOptions {
  StageRange range;
  std::string device = "auto";   // cpu | cuda | cuda:N | auto
  std::string compute = "fp32";  // fp32 | bf16 | auto; of a made stage never auto (torch_device.h)
  double dropout = 0;            // masks drawn by counter from (seed, sample id, layer)
  bool fresh_masks = false;      // from the step, too: a sample gets another mask at each visit
  std::uint64_t seed = 0;
  bool recompute = false;  // keep inputs only and run the forward again in backward
  // Activations and their gradients stay on a device that has memory of its own.
  bool values_on_device = false;
  int threads = 0;  // intra-op threads of the process; 0: LibTorch's choice
  ZeroMode held = ZeroMode::kNone;
  std::string state_folder;  // of this stage alone, where Save's folders are; unless all is held
  OptimizerOptions optimizer;
};

// Whether parts of the state are in files.
inline bool NeedsFiles(ZeroMode held) {
  return held == ZeroMode::kZero1 || held == ZeroMode::kZero3;
}

}  // namespace shoal::model

#endif  // SHOAL_MODEL_STAGE_OPTIONS_H_
