// What another program computed with a model: inputs, logits, loss, gradients, weights after steps.

#ifndef SHOAL_TESTS_UNIT_MODEL_GOLDEN_H_
#define SHOAL_TESTS_UNIT_MODEL_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/models/float_bytes.h"
#include "storage/models/safetensors.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {

class Golden {
 public:
  explicit Golden(const std::string& folder, const std::string& file = "golden.safetensors")
      : file_(storage::OpenSafetensors(folder + "/" + file).value()) {}

  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const storage::TensorView& view = file_->tensors().at(name);
    std::vector<T> values(view.data.size() / sizeof(T));
    std::memcpy(values.data(), view.data.data(), view.data.size());
    return values;
  }
  // Of a tensor of F32 or F16.
  std::vector<float> Floats(const std::string& name) const {
    const storage::TensorView& view = file_->tensors().at(name);
    const std::size_t bytes = view.dtype == storage::DType::kF32 ? sizeof(float) : 2;
    std::vector<float> values(view.data.size() / bytes);
    storage::ReadFloats(view.dtype, view.data, values);
    return values;
  }
  TestBatch Batch() const {
    TestBatch batch;
    const storage::TensorView& ids = file_->tensors().at("input_ids");
    batch.rows = static_cast<std::uint32_t>(ids.shape[0]);
    batch.tokens = static_cast<std::uint32_t>(ids.shape[1]);
    batch.token_ids = Numbers("input_ids");
    batch.labels = Numbers("labels");
    if (file_->tensors().contains("segments")) batch.segments = Numbers("segments");
    if (file_->tensors().contains("type_borders")) {
      for (const std::int32_t border : Numbers("type_borders")) {
        batch.type_borders.push_back(static_cast<std::uint32_t>(border));
      }
    }
    for (std::uint32_t row = 0; row < batch.rows; ++row) batch.samples.push_back({row});
    return batch;
  }
  std::vector<std::int32_t> Numbers(const std::string& name) const {
    const std::vector<std::int64_t> values = Values<std::int64_t>(name);
    return {values.begin(), values.end()};
  }
  // Of all tensors with this prefix, by the rest of their names.
  std::map<std::string, std::vector<float>> All(const std::string& prefix) const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& [name, view] : file_->tensors()) {
      if (name.starts_with(prefix)) all[name.substr(prefix.size())] = Floats(name);
    }
    return all;
  }

 private:
  std::shared_ptr<const storage::SafetensorsFile> file_;
};

inline std::map<std::string, std::vector<float>> WeightsOf(StagePipeline* pipeline) {
  std::map<std::string, std::vector<float>> weights;
  for (std::size_t s = 0; s < pipeline->size(); ++s) {
    StageModel& stage = pipeline->stage(s);
    std::vector<float> flat(stage.state_size());
    EXPECT_TRUE(stage.Read(StateVector::kWeights, 0, flat).ok());
    for (const TensorLayout& layout : stage.layout()) {
      const auto first = flat.begin() + static_cast<std::ptrdiff_t>(layout.offset);
      weights[layout.name].assign(first, first + static_cast<std::ptrdiff_t>(layout.size));
    }
  }
  return weights;
}

inline double Largest(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

inline void ExpectNear(const std::map<std::string, std::vector<float>>& got,
                       const std::map<std::string, std::vector<float>>& wanted, double most) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, values] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    double scale = 1;
    // A key bias without rotary positions, or one of positions' keys, moves all scores of a query
    // alike: its gradient is rounding noise. Beside the query's it must be nothing.
    for (const std::string key : {"key.bias", "pos_key_proj.bias"}) {
      if (!name.ends_with(key)) continue;
      std::string query = name;
      query.replace(name.rfind("key"), 3, "query");
      scale = std::min(1.0, Largest(values) / Largest(wanted.at(query)));
    }
    EXPECT_LT(RelativeDifference(got.at(name), values) * scale, most) << name;
  }
}

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_GOLDEN_H_
