// DeviceStage: a TinyStage whose activations and gradients lie in the memory of a FakeDevice.

#ifndef SHOAL_TESTS_SUPPORT_DEVICE_STAGE_H_
#define SHOAL_TESTS_SUPPORT_DEVICE_STAGE_H_

#include <memory>
#include <utility>

#include "tests/support/fake_device.h"
#include "tests/support/tiny_stage.h"

namespace shoal::test_support {

class DeviceStage final : public TinyStage {
 public:
  DeviceStage(const TinyShape& shape, model::StageRange range, unsigned seed,
              std::shared_ptr<FakeDevice> device)
      : TinyStage(shape, range, seed), device_(std::move(device)) {}

  std::shared_ptr<DeviceMemory> values_memory() const override { return device_; }

  Status Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                 model::StepLoss* loss) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::Forward(micro_batch, output, loss);
  }
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::BackwardInput(id, output_gradient, input_gradient);
  }
  Result<bool> ForwardPart(const model::MicroBatch& micro_batch, std::span<float> output,
                           model::StepLoss* loss) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::ForwardPart(micro_batch, output, loss);
  }
  Result<bool> BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                 std::span<float> input_gradient) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::BackwardInputPart(id, output_gradient, input_gradient);
  }
  Status Evaluate(const model::MicroBatch& micro_batch, std::span<float> output,
                  model::StepLoss* loss) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::Evaluate(micro_batch, output, loss);
  }
  Status ReadThere(model::StateVector which, std::size_t first, std::span<float> values) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::Read(which, first, values);
  }
  Status WriteThere(model::StateVector which, std::size_t first,
                    std::span<const float> values) override {
    const FakeDevice::Work work(device_.get());
    return TinyStage::Write(which, first, values);
  }

 private:
  const std::shared_ptr<FakeDevice> device_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_DEVICE_STAGE_H_
