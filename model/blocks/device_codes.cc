#include "model/blocks/device_codes.h"

#ifdef SHOAL_CUDA
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <span>
#include <vector>

#include "model/device/decode_weights.h"
#endif

namespace shoal::model {

#ifdef SHOAL_CUDA
namespace {

template <typename Codes>
class CodesOnDevice final : public DeviceCodes {
 public:
  CodesOnDevice(const StoredWeight& weight, const at::Device& device)
      : shape_(weight.shape), device_(device) {
    Fill(weight, &codes_);
    codes_.values = weight.values;
  }

  std::uint64_t bytes() const override {
    std::uint64_t sum = 0;
    for (const at::Tensor& part : parts_) sum += part.nbytes();
    return sum;
  }

  at::Tensor Decode(at::ScalarType type) const override {
    const bool bf16 = type == at::kBFloat16;
    const at::Tensor out =
        at::empty(shape_, at::TensorOptions(bf16 ? at::kBFloat16 : at::kFloat).device(device_));
    const c10::cuda::CUDAGuard guard(device_);
    DecodeOnDevice(codes_, bf16, out.mutable_data_ptr(),
                   c10::cuda::getCurrentCUDAStream(device_.index()).stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return out.to(type);
  }

 private:
  // The address of a copy on the device.
  template <typename T>
  const T* Send(std::span<const std::byte> bytes) {
    // from_blob wants a mutable pointer; the tensor is only read.
    const at::Tensor host =
        at::from_blob(const_cast<std::byte*>(bytes.data()),
                      {static_cast<std::int64_t>(bytes.size())}, at::TensorOptions(at::kByte));
    return static_cast<const T*>(parts_.emplace_back(host.to(device_)).const_data_ptr());
  }
  void Fill(const StoredWeight& weight, Nf4Codes* codes) {
    const Nf4View& view = weight.nf4;
    codes->codes = Send<std::uint8_t>(view.codes);
    std::copy(kNf4Values.begin(), kNf4Values.end(), codes->quantiles);
    if (!view.nested) {
      codes->absmax = Send<float>(view.absmax);
      return;
    }
    codes->absmax_codes = Send<std::uint8_t>(view.absmax);
    codes->nested_absmax = Send<float>(view.nested_absmax);
    codes->nested_map = Send<float>(view.nested_map);
    codes->offset = view.offset;
  }
  void Fill(const StoredWeight& weight, Int8Codes* codes) {
    codes->columns = weight.int8.columns;
    codes->codes = Send<std::int8_t>(weight.int8.codes);
    codes->absmax = Send<float>(weight.int8.absmax);
  }

  const std::vector<std::int64_t> shape_;
  const at::Device device_;
  std::vector<at::Tensor> parts_;
  Codes codes_;
};

}  // namespace

std::unique_ptr<const DeviceCodes> NewDeviceCodes(const StoredWeight& weight,
                                                  const at::Device& device) {
  if (!device.is_cuda()) return nullptr;
  if (weight.format == WeightFormat::kNf4) {
    return std::make_unique<CodesOnDevice<Nf4Codes>>(weight, device);
  }
  return std::make_unique<CodesOnDevice<Int8Codes>>(weight, device);
}

#else

std::unique_ptr<const DeviceCodes> NewDeviceCodes(const StoredWeight&, const at::Device&) {
  return nullptr;
}

#endif

}  // namespace shoal::model
