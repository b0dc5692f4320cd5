#include "compression/device/device_values.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "compression/device/copy_lane.h"
#include "compression/device/device_queue.h"
#include "compression/device/host_form_codec.h"
#include "compression/device/on_device_codec.h"

namespace shoal::compression {
namespace {

// Of one sample of a job, whose positions are numbers of 31 bits.
constexpr std::size_t kRangeValuesMax = std::size_t{1} << 30;
// Values of which a device gives one sum of squares.
constexpr std::size_t kSquaresRow = 1024;

class DeviceValues final : public ValueHome {
 public:
  DeviceValues(std::shared_ptr<DeviceMemory> memory, NewQueue new_queue)
      : memory_(std::move(memory)), lanes_(std::make_shared<CopyLanes>(std::move(new_queue))) {}

  bool on_host() const override { return false; }
  Result<HomeCodec> NewCodec(std::string_view spec, std::uint32_t hidden) const override {
    HomeCodec made;
    SHOAL_ASSIGN_OR_RETURN(auto host, MakeCodec(spec, hidden));
    auto there = NewOnDeviceCodec(host, hidden, lanes_);
    if (there.ok()) {
      made.codec = std::move(there).value();
      return made;
    }
    if (there.status().code() != StatusCode::kUnimplemented) return there.status();
    const std::string reason = there.status().message();
    made.on_host_because = reason.substr(0, reason.find(';'));  // without what else one could do
    made.codec = NewHostFormCodec(std::move(host), lanes_);
    return made;
  }

  Result<Buffer> Allocate(std::size_t count) const override {
    return Buffer::OnDevice(memory_, count * sizeof(float));
  }

  Result<bool> AllWithin(std::span<const float> values, float most) const override {
    SHOAL_ASSIGN_OR_RETURN(auto lane, lanes_->Take());
    for (std::size_t at = 0; at < values.size(); at += kRangeValuesMax) {
      const auto part = values.subspan(at, std::min(kRangeValuesMax, values.size() - at));
      const auto count = static_cast<std::uint32_t>(part.size());
      const DeviceContext context{&lane->queue(), &lane->scratch(), {1, count}, {}, 1, {}};
      DeviceSample sample;
      sample.x = part.data();
      SHOAL_RETURN_IF_ERROR(SendSamples(context, {&sample, 1}));
      lane->queue().Run(JobOf<RangeJob>(context, 1));
      Extremes extremes;
      FetchExtremes(context, {&extremes, 1});
      SHOAL_RETURN_IF_ERROR(lane->queue().Wait());
      // Magnitudes have the order of their bits; infinities and NaNs are above all.
      if (extremes.x > std::bit_cast<std::uint32_t>(most)) return false;
    }
    return true;
  }

  Result<double> SumOfSquares(std::span<const float> values) const override {
    SHOAL_ASSIGN_OR_RETURN(auto lane, lanes_->Take());
    double sum = 0;
    const std::size_t whole = values.size() / kSquaresRow * kSquaresRow;
    for (std::size_t at = 0; at < whole; at += kRangeValuesMax) {
      const auto part = values.subspan(at, std::min(kRangeValuesMax, whole - at));
      SHOAL_RETURN_IF_ERROR(AddSquares(lane, part, kSquaresRow, &sum));
    }
    const auto rest = values.subspan(whole);
    if (!rest.empty()) SHOAL_RETURN_IF_ERROR(AddSquares(lane, rest, rest.size(), &sum));
    return sum;
  }

  Status Zero(std::span<float> values) const override {
    SHOAL_ASSIGN_OR_RETURN(auto lane, lanes_->Take());
    lane->queue().Zero(reinterpret_cast<std::byte*>(values.data()), values.size_bytes());
    return lane->queue().Wait();
  }

  Status Update(VectorOp op, std::span<const float> from, float factor,
                std::span<float> to) const override {
    SHOAL_CHECK(op == VectorOp::kScale || from.size() == to.size());
    SHOAL_ASSIGN_OR_RETURN(auto lane, lanes_->Take());
    lane->queue().Run(VectorJob{op, factor, to.size(), from.data(), to.data()});
    return lane->queue().Wait();
  }
  Status CopyToHost(std::span<const float> from, std::span<std::byte> to) const override {
    return lanes_->ToHost(from, to);
  }
  Status CopyFromHost(std::span<const std::byte> from, std::span<float> to) const override {
    return lanes_->ToDevice(from, to);
  }

  double device_ms() const override { return lanes_->device_ms(); }

 private:
  // Of whole rows.
  static Status AddSquares(const Borrowed<CopyLane>& lane, std::span<const float> values,
                           std::size_t row, double* sum) {
    const SampleShape shape{static_cast<std::uint32_t>(values.size() / row),
                            static_cast<std::uint32_t>(row)};
    const DeviceContext context{&lane->queue(), &lane->scratch(), shape, {}, 1, {}};
    DeviceSample sample;
    sample.x = values.data();
    SHOAL_RETURN_IF_ERROR(SendSamples(context, {&sample, 1}));
    SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, TokenEnergies(context));
    *sum = std::accumulate(energies.begin(), energies.end(), *sum);
    return Status::Ok();
  }

  const std::shared_ptr<DeviceMemory> memory_;
  const std::shared_ptr<CopyLanes> lanes_;
};

}  // namespace

std::shared_ptr<const ValueHome> NewDeviceValues(
    std::shared_ptr<DeviceMemory> memory,
    std::function<Result<std::unique_ptr<DeviceQueue>>()> new_queue) {
  return std::make_shared<DeviceValues>(std::move(memory), std::move(new_queue));
}

Result<std::shared_ptr<const ValueHome>> CudaValues(std::shared_ptr<DeviceMemory> memory) {
  // Shows at once whether there is code for the device.
  SHOAL_RETURN_IF_ERROR(NewCudaQueue(memory).status());
  return NewDeviceValues(memory, [memory] { return NewCudaQueue(memory); });
}

}  // namespace shoal::compression
