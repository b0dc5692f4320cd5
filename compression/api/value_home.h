// ValueHome: where the values lie that a stage exchanges with its boundaries, and codecs for values
// that lie there.
//
// On a device the spans of values in SampleToEncode, SampleToDecode and GradientMessage are
// addresses of its memory; payloads and m images are memory of the host everywhere. All calls
// return when their work is done, of which nothing runs on the device any more. Thread: any.

#ifndef SHOAL_COMPRESSION_API_VALUE_HOME_H_
#define SHOAL_COMPRESSION_API_VALUE_HOME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/api/vector_op.h"

namespace shoal::compression {

struct HomeCodec {
  std::shared_ptr<const MessageCodec> codec;
  // Why the codec works in the memory of the host, to which it copies values of a device; empty:
  // it works where they lie.
  std::string on_host_because;
};

class ValueHome {
 public:
  virtual ~ValueHome() = default;

  // Whether the host may read values that lie here.
  virtual bool on_host() const = 0;
  // As the function MakeCodec.
  virtual Result<HomeCodec> NewCodec(std::string_view spec, std::uint32_t hidden) const = 0;

  // Values of any content. Resource exhausted where the device has no more memory.
  virtual Result<Buffer> Allocate(std::size_t count) const = 0;
  // Whether all values are finite and of magnitudes up to `most`.
  virtual Result<bool> AllWithin(std::span<const float> values, float most) const = 0;
  // Finite if and only if all values are; the order of the sum is the home's own.
  virtual Result<double> SumOfSquares(std::span<const float> values) const = 0;
  virtual Status Zero(std::span<float> values) const = 0;
  // As many values as `to` has in `from`, but for kScale, which takes none.
  virtual Status Update(VectorOp op, std::span<const float> from, float factor,
                        std::span<float> to) const = 0;
  // to = a + b.
  virtual Status Sum(std::span<const float> a, std::span<const float> b,
                     std::span<float> to) const {
    SHOAL_RETURN_IF_ERROR(Update(VectorOp::kCopy, a, 1, to));
    return Update(VectorOp::kAdd, b, 1, to);
  }
  // The bytes are memory of the host, four for each value.
  virtual Status CopyToHost(std::span<const float> from, std::span<std::byte> to) const = 0;
  virtual Status CopyFromHost(std::span<const std::byte> from, std::span<float> to) const = 0;
  // Time that the device spent on codecs, in all; 0 on the host.
  virtual double device_ms() const { return 0; }
};

// The memory of the host.
std::shared_ptr<const ValueHome> HostValues();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_VALUE_HOME_H_
