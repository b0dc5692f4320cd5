#include "compression/api/value_home.h"

#include <algorithm>
#include <cstring>

#include "compression/api/value_range.h"
#include "compression/simd/dither_kernels.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::compression {
namespace {

class HostHome final : public ValueHome {
 public:
  bool on_host() const override { return true; }
  Result<HomeCodec> NewCodec(std::string_view spec, std::uint32_t hidden) const override {
    HomeCodec made;
    SHOAL_ASSIGN_OR_RETURN(made.codec, MakeCodec(spec, hidden));
    return made;
  }
  Result<Buffer> Allocate(std::size_t count) const override {
    return Buffer(count * sizeof(float));
  }
  Result<bool> AllWithin(std::span<const float> values, float most) const override {
    return compression::AllWithin(values, most);
  }
  Result<double> SumOfSquares(std::span<const float> values) const override {
    return compression::SumOfSquares(values.data(), values.size());
  }
  Status Zero(std::span<float> values) const override {
    std::ranges::fill(values, 0.0F);
    return Status::Ok();
  }
  Status Update(VectorOp op, std::span<const float> from, float factor,
                std::span<float> to) const override {
    SHOAL_CHECK(op == VectorOp::kScale || from.size() == to.size());
    switch (op) {
      case VectorOp::kCopy: std::ranges::copy(from, to.begin()); break;
      case VectorOp::kAdd: AddOnto(from.data(), to.size(), to.data()); break;
      case VectorOp::kSubtract: Subtract(from.data(), to.size(), to.data()); break;
      case VectorOp::kScale: Scale(factor, to.size(), to.data()); break;
      case VectorOp::kAddScaled: AddScaled(from.data(), factor, to.size(), to.data()); break;
    }
    return Status::Ok();
  }
  Status Sum(std::span<const float> a, std::span<const float> b,
             std::span<float> to) const override {
    SHOAL_CHECK(a.size() == to.size() && b.size() == to.size());
    AddVectors(a.data(), b.data(), to.size(), to.data());
    return Status::Ok();
  }
  Status CopyToHost(std::span<const float> from, std::span<std::byte> to) const override {
    SHOAL_CHECK(from.size_bytes() == to.size());
    if (!from.empty()) std::memcpy(to.data(), from.data(), to.size());
    return Status::Ok();
  }
  Status CopyFromHost(std::span<const std::byte> from, std::span<float> to) const override {
    SHOAL_CHECK(from.size() == to.size_bytes());
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return Status::Ok();
  }
};

}  // namespace

std::shared_ptr<const ValueHome> HostValues() {
  static const std::shared_ptr<const ValueHome> home = std::make_shared<HostHome>();
  return home;
}

}  // namespace shoal::compression
