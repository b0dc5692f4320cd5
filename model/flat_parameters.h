// FlatParameters: weights, gradients and optimizer state of a stage, each one flat fp32 vector.
//
// One flat vector makes export, import, norm, checksum and the optimizer single passes; layers see
// views of their tensors. Layout order: parts in order, within a part by name. A tied embedding
// that the stage needs at both ends is one tensor. Internal to model/: the methods throw what
// LibTorch throws, the stage turns that into Status. Thread: compute.

#ifndef SHOAL_MODEL_FLAT_PARAMETERS_H_
#define SHOAL_MODEL_FLAT_PARAMETERS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/stage_model.h"
#include "optimizer/adamw.h"

namespace at {
class Tensor;
}

namespace shoal::model {

// Names of a tensor's moments in optimizer files, behind the tensor's own.
inline constexpr std::array<std::string_view, 2> kMomentSuffixes = {".exp_avg", ".exp_avg_sq"};

struct ParameterEntry {
  std::string name;  // canonical, as "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  // in values
  std::size_t size = 0;
  bool decay = false;  // weight decay: tensors of two dimensions
};

struct StagePart {
  std::string name;                  // "embedding", "layer.0", "head", ...
  std::vector<std::size_t> entries;  // indices; a tied embedding appears in both of its parts
};

class FlatParameters {
 public:
  static constexpr std::int64_t kSliceValues = std::int64_t{1} << 23;

  // `device`: "cpu", "cuda:0", ...; all values zero. `bf16`: also keeps a bf16 copy of the weights.
  // Unless all is held there are no moments, and what is about them must not be called; of weights
  // alone the same holds for gradients, but for ZeroGradients, which does nothing. By units,
  // nothing is held at first; only views, Read, Write and the units' own may be called.
  FlatParameters(const ModelSpec& spec, const StageRange& range, const std::string& device,
                 bool bf16, ZeroMode held = ZeroMode::kNone);
  ~FlatParameters();
  FlatParameters(const FlatParameters&) = delete;
  FlatParameters& operator=(const FlatParameters&) = delete;

  const std::vector<ParameterEntry>& entries() const { return entries_; }
  const std::vector<StagePart>& parts() const { return parts_; }
  std::size_t size() const { return size_; }
  const std::string& device() const { return device_; }
  bool bf16() const { return bf16_; }
  std::uint64_t bytes() const;  // that are held

  // Empty unless state is held by units.
  const std::vector<UnitLayout>& units() const { return units_; }
  std::size_t UnitOf(const std::string& name) const;  // of an entry
  void HoldUnit(StateVector which, std::size_t unit);
  void ReleaseUnit(StateVector which, std::size_t unit);
  // Whether all of a range is held.
  bool Holds(StateVector which, std::size_t first, std::size_t count) const;

  // Views in the tensor's shape; valid for life. Value and Gradient are fp32, ComputeValue is in
  // the dtype of the matrix products.
  at::Tensor Value(const std::string& name) const;
  at::Tensor ComputeValue(const std::string& name) const;
  at::Tensor Gradient(const std::string& name) const;

  void ZeroGradients();
  // Values [first, first + values.size()) of a vector; the caller has checked the range.
  // `values` lie on `where`, as LibTorch spells it.
  void Read(StateVector which, std::size_t first, std::span<float> values,
            const std::string& where = "cpu") const;
  void Write(StateVector which, std::size_t first, std::span<const float> values,
             const std::string& where = "cpu");
  // Sum of squares of the gradients in fp64, without those of tensors of these names.
  double SquaredGradientNorm(const std::set<std::string>& skipped) const;
  // One AdamW update; `options.weight_decay` counts only where the entry decays. On the CPU it is
  // one pass over memory. Without `fused`, and on other devices, tensor operations make the same
  // roundings in the same order: equal to the bit. They go by slices of so many values, whose
  // copies take little memory beside the largest tensor.
  void Apply(const optimizer::AdamWOptions& options, bool fused = true,
             std::int64_t slice_values = kSliceValues);
  // XXH3-64 over all weights in layout order.
  std::uint64_t WeightChecksum() const;

  // The part's tensors have the right names, shapes and dtypes (F32, F16, BF16).
  Status CheckPart(const StagePart& part, const storage::TensorMap& tensors) const;
  void LoadPart(const StagePart& part, const storage::TensorMap& tensors);
  // Optimizer files hold <name>.exp_avg and <name>.exp_avg_sq in F32.
  Status CheckOptimizerPart(const StagePart& part, const storage::TensorMap& tensors) const;
  void LoadOptimizerPart(const StagePart& part, const storage::TensorMap& tensors);
  void ZeroOptimizer();
  // Writes <folder>/<part>.safetensors and, if there are moments,
  // <folder>/<part>.optimizer.safetensors.
  Status SavePart(const StagePart& part, const std::string& folder) const;
  // Brings the bf16 copy up to date after the weights have changed.
  void RefreshComputeValues();

 private:
  struct Tensors;

  void AddPart(const ModelSpec& spec, const std::string& part);
  void AddToUnits(const std::string& part, const ParameterEntry& entry);
  void MakeBlock(std::size_t first, std::size_t values);
  const ParameterEntry& Entry(const std::string& name) const;

  std::vector<ParameterEntry> entries_;
  std::vector<StagePart> parts_;
  std::size_t size_ = 0;
  const std::string device_;
  const bool bf16_;
  const ZeroMode held_;
  const std::string alone_;  // a tensor that is a unit by itself
  std::vector<UnitLayout> units_;
  std::unique_ptr<Tensors> tensors_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FLAT_PARAMETERS_H_
