#include "compression/api/value_home.h"

#include <algorithm>

#include "compression/api/value_range.h"

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
  Result<ValueBlock> Allocate(std::size_t count) const override { return ValueBlock(count); }
  Result<bool> AllWithin(std::span<const float> values, float most) const override {
    return compression::AllWithin(values, most);
  }
  Status Zero(std::span<float> values) const override {
    std::ranges::fill(values, 0.0F);
    return Status::Ok();
  }
  Status CopyToHost(std::span<const float> from, std::span<float> to) const override {
    std::ranges::copy(from, to.begin());
    return Status::Ok();
  }
};

}  // namespace

std::shared_ptr<const ValueHome> HostValues() {
  static const std::shared_ptr<const ValueHome> home = std::make_shared<HostHome>();
  return home;
}

}  // namespace shoal::compression
