#include "replica/collective/chunk_coders.h"

#include <string>
#include <utility>

#include "common/memory/buffer.h"
#include "compression/api/codec_spec.h"
#include "replica/collective/one_bit_coder.h"

namespace shoal::collective {
namespace {

constexpr std::uint32_t kRowMax = 1u << 20;

// fp32 values as they are: no section header, no look at the values.
class ExactCoder final : public ChunkCoder {
 public:
  explicit ExactCoder(std::shared_ptr<const compression::ValueHome> home)
      : home_(std::move(home)) {}

  const compression::ValueHome& home() const override { return *home_; }
  const std::string& spec() const override { return spec_; }
  bool exact() const override { return true; }
  std::size_t BytesMax(std::size_t values) const override { return values * sizeof(float); }
  Result<std::size_t> Encode(std::span<const float> values, const compression::RandomKey&,
                             std::span<std::byte> out) const override {
    SHOAL_CHECK(!values.empty() && out.size() >= values.size_bytes());
    SHOAL_RETURN_IF_ERROR(home_->CopyToHost(values, out.first(values.size_bytes())));
    return values.size_bytes();
  }
  Status Decode(std::span<const std::byte> payload, const compression::RandomKey&,
                std::span<float> values) const override {
    if (payload.size() != values.size_bytes()) {
      return InvalidArgument("a payload of " + std::to_string(payload.size()) +
                             " bytes instead of " + std::to_string(values.size_bytes()));
    }
    return home_->CopyFromHost(payload, values);
  }

 private:
  const std::shared_ptr<const compression::ValueHome> home_;
  const std::string spec_ = compression::kLosslessCodec;
};

// A codec of compression/, whose one sample is the chunk's rows.
class RowCoder final : public ChunkCoder {
 public:
  RowCoder(std::shared_ptr<const compression::MessageCodec> codec, std::uint32_t row,
           std::shared_ptr<const compression::ValueHome> home)
      : codec_(std::move(codec)), row_(row), home_(std::move(home)) {}

  const compression::ValueHome& home() const override { return *home_; }
  const std::string& spec() const override { return codec_->spec(); }
  std::size_t BytesMax(std::size_t values) const override {
    return codec_->EncodedBytesMax(Shape(values), 1);
  }

  Result<std::size_t> Encode(std::span<const float> values, const compression::RandomKey& key,
                             std::span<std::byte> out) const override {
    const compression::SampleShape shape = Shape(values.size());
    Buffer filled;
    if (values.size() != shape.values()) {
      SHOAL_ASSIGN_OR_RETURN(filled, home_->Allocate(shape.values()));
      const std::span<float> rows = filled.floats();
      SHOAL_RETURN_IF_ERROR(
          home_->Update(compression::VectorOp::kCopy, values, 1, rows.first(values.size())));
      SHOAL_RETURN_IF_ERROR(home_->Zero(rows.subspan(values.size())));
      values = rows;
    }
    const compression::SampleToEncode sample{values, {}};
    return codec_->Encode({&sample, 1}, shape, key, compression::DeltaMode::kDelta, out, {},
                          nullptr);
  }

  Status Decode(std::span<const std::byte> payload, const compression::RandomKey& key,
                std::span<float> values) const override {
    const compression::SampleShape shape = Shape(values.size());
    if (values.size() == shape.values()) return DecodeRows(payload, key, shape, values);
    SHOAL_ASSIGN_OR_RETURN(Buffer filled, home_->Allocate(shape.values()));
    SHOAL_RETURN_IF_ERROR(DecodeRows(payload, key, shape, filled.floats()));
    return home_->Update(compression::VectorOp::kCopy, filled.floats().first(values.size()), 1,
                         values);
  }

 private:
  compression::SampleShape Shape(std::size_t values) const {
    const std::size_t rows = values / row_ + (values % row_ != 0 ? 1 : 0);
    return {static_cast<std::uint32_t>(rows), row_};
  }
  Status DecodeRows(std::span<const std::byte> payload, const compression::RandomKey& key,
                    compression::SampleShape shape, std::span<float> rows) const {
    const compression::SampleToDecode sample{rows, false, {}};
    return codec_->Decode(payload, {&sample, 1}, shape, key, {});
  }

  const std::shared_ptr<const compression::MessageCodec> codec_;
  const std::uint32_t row_;
  const std::shared_ptr<const compression::ValueHome> home_;
};

using Made = std::shared_ptr<const ChunkCoder>;

// Registration: a coder that exchanges alone have is known by its line here; all others are codecs.
constexpr struct {
  std::string_view name;
  Result<Made> (*make)(const compression::CodecSpec& spec);
} kCoders[] = {
    {"onebit", MakeOneBitCoder},
};

}  // namespace

Result<std::shared_ptr<const ChunkCoder>> MakeChunkCoder(
    std::string_view spec, std::uint32_t row, std::shared_ptr<const compression::ValueHome> home) {
  if (row == 0 || row > kRowMax) {
    return InvalidArgument("a row of an exchange has 1 to 1048576 values, not " +
                           std::to_string(row));
  }
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec parsed,
                         compression::ParseCodecSpec(spec, ','));
  for (const auto& coder : kCoders) {
    if (coder.name != parsed.name) continue;
    if (home->on_host()) return coder.make(parsed);
    return Unimplemented("coder " + std::string(parsed.name) + " has no form on a device");
  }
  SHOAL_ASSIGN_OR_RETURN(const compression::HomeCodec made, home->NewCodec(spec, row));
  if (!made.on_host_because.empty()) return Unimplemented(made.on_host_because);
  const auto& codec = made.codec;
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecTraits traits, compression::TraitsOf(spec));
  if (traits.lossless) return Made(std::make_shared<ExactCoder>(std::move(home)));
  if (codec->keeps_m() || codec->keeps_residual()) {
    return InvalidArgument("codec " + codec->spec() +
                           " has a memory of its own; inside a stage group take one without, the "
                           "exchange has its own error feedback");
  }
  return Made(std::make_shared<RowCoder>(codec, row, std::move(home)));
}

}  // namespace shoal::collective
