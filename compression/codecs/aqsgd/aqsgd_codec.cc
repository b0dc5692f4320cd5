#include "compression/codecs/aqsgd/aqsgd_codec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/aqsgd/aqsgd_header.h"
#include "compression/codecs/aqsgd/delta_section.h"
#include "compression/codecs/coding_sample.h"

namespace shoal::compression {
namespace {

// The samples of a message that one section carries, in order, and where they stand in it.
template <typename Sample>
struct Group {
  std::vector<std::size_t> positions;
  std::vector<Sample> samples;
  std::vector<Buffer> next_m;

  void Add(std::size_t position, const Sample& sample) {
    positions.push_back(position);
    samples.push_back(sample);
    next_m.emplace_back();
  }
  void MoveTo(std::span<Buffer> all) {
    for (std::size_t i = 0; i < positions.size(); ++i) all[positions[i]] = std::move(next_m[i]);
  }
};

class AqsgdCodec : public MessageCodec {
 public:
  explicit AqsgdCodec(AqsgdParts parts) : parts_(std::move(parts)) {}

  const std::string& spec() const override { return parts_.spec; }
  bool keeps_m() const override { return true; }
  bool guarded() const override { return parts_.guarded; }
  bool divisible() const override {
    return parts_.delta->divisible() && parts_.wide->divisible() &&
           parts_.first_visit->divisible() && parts_.full->divisible();
  }
  std::size_t MImageBytes(SampleShape shape) const override { return parts_.m.Bytes(shape); }
  Status CheckMImage(std::span<const std::byte> image, SampleShape shape) const override {
    return parts_.m.Check(image, shape);
  }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    const auto most = [&](const PlainCodec& codec) {
      return codec.EncodedBytesMax(shape, samples);
    };
    return kMessageHeaderBytes + std::max(most(*parts_.delta), most(*parts_.wide)) +
           std::max(most(*parts_.first_visit), most(*parts_.full));
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                             std::span<Buffer> next_m, CodingStats* stats) const override;
  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer> next_m) const override;
  DeltaMode SentMode(std::span<const std::byte> payload) const override {
    return AqsgdMode(payload);
  }

 private:
  const PlainCodec& Deltas(DeltaMode mode) const {
    if (mode == DeltaMode::kWideDelta) return *parts_.wide;
    return *parts_.delta;
  }
  const PlainCodec& Firsts(DeltaMode mode) const {
    return mode == DeltaMode::kFull ? *parts_.full : *parts_.first_visit;
  }
  Result<std::size_t> EncodeFirsts(Group<SampleToEncode>* group, const DeltaContext& context,
                                   DeltaMode mode, std::span<std::byte> out,
                                   CodingStats* stats) const;
  Status DecodeFirsts(std::span<const std::byte> section, Group<SampleToDecode>* group,
                      const DeltaContext& context, DeltaMode mode) const;

  AqsgdParts parts_;
};

Result<std::size_t> AqsgdCodec::EncodeFirsts(Group<SampleToEncode>* group,
                                             const DeltaContext& context, DeltaMode mode,
                                             std::span<std::byte> out, CodingStats* stats) const {
  const std::size_t n = context.shape.values();
  Buffer values(group->samples.size() * n * sizeof(float));
  std::vector<float> delta;
  std::vector<std::span<const float>> sources;
  std::vector<std::span<float>> decoded;
  for (std::size_t i = 0; i < group->samples.size(); ++i) {
    sources.push_back(group->samples[i].values);
    decoded.push_back(values.floats().subspan(i * n, n));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         Firsts(mode).Encode(sources, context.shape, context.key, out, decoded));
  for (std::size_t i = 0; i < group->samples.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(group->next_m[i],
                           parts_.m.Make(decoded[i], context.shape, context.spec));
    if (stats == nullptr) continue;
    const std::span<const std::byte> m = group->samples[i].m;
    delta.resize(m.empty() ? 0 : n);
    if (!m.empty()) {
      SHOAL_RETURN_IF_ERROR(parts_.m.CheckAll(m, context.shape, context.spec));
      parts_.m.Read(m, context.shape, delta);
      for (std::size_t j = 0; j < n; ++j) delta[j] = sources[i][j] - delta[j];
    }
    CountErrors(i, sources[i], decoded[i].data(), stats);
    if (m.empty()) continue;
    TokenCounter(context.shape.hidden, &stats->changes).Add(sources[i].data(), delta.data(), n);
  }
  return bytes;
}

Status AqsgdCodec::DecodeFirsts(std::span<const std::byte> section, Group<SampleToDecode>* group,
                                const DeltaContext& context, DeltaMode mode) const {
  std::vector<std::span<float>> decoded;
  for (const SampleToDecode& sample : group->samples) decoded.push_back(sample.values);
  if (Status s = Firsts(mode).Decode(section, context.shape, context.key, decoded); !s.ok()) {
    return s.WithContext("first visits of codec " + spec());
  }
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (decoded[i].empty()) continue;
    SHOAL_ASSIGN_OR_RETURN(group->next_m[i],
                           parts_.m.Make(decoded[i], context.shape, context.spec));
  }
  return Status::Ok();
}

Result<std::size_t> AqsgdCodec::Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                                       const RandomKey& key, DeltaMode mode,
                                       std::span<std::byte> out, std::span<Buffer> next_m,
                                       CodingStats* stats) const {
  SHOAL_CHECK(next_m.size() == samples.size());
  Group<SampleToEncode> deltas, firsts;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    sizes.push_back(samples[i].values.size());
    const bool delta = !samples[i].m.empty() && mode != DeltaMode::kFull;
    (delta ? deltas : firsts).Add(i, samples[i]);
  }
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, std::span<const std::size_t>(sizes), false, spec()));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  const DeltaContext context{shape, key, spec()};
  CodingStats seen;
  CodingStats* const counted = stats == nullptr ? nullptr : &seen;
  std::size_t delta_bytes = 0;
  if (const auto body = out.subspan(kMessageHeaderBytes); !deltas.samples.empty()) {
    const BucketFormat* format = parts_.OnePass(mode);
    const Result<std::size_t> bytes =
        format != nullptr ? EncodeDeltasOnePass({*format, parts_.scaled}, deltas.samples, context,
                                                body, deltas.next_m, counted)
                          : EncodeDeltas(Deltas(mode), parts_.m, deltas.samples, context, body,
                                         deltas.next_m, counted);
    if (!bytes.ok()) return bytes.status();
    delta_bytes = *bytes;
  }
  std::size_t written = kMessageHeaderBytes + delta_bytes;
  if (!firsts.samples.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           EncodeFirsts(&firsts, context, mode, out.subspan(written), counted));
    written += bytes;
  }
  WriteAqsgdHeader({mode, deltas.samples.size(), delta_bytes}, parts_.m.bits(), out.data());
  deltas.MoveTo(next_m);
  firsts.MoveTo(next_m);
  if (stats != nullptr) stats->Add(seen);
  return written;
}

Status AqsgdCodec::Decode(std::span<const std::byte> payload,
                          std::span<const SampleToDecode> samples, SampleShape shape,
                          const RandomKey& key, std::span<Buffer> next_m) const {
  SHOAL_CHECK(next_m.size() == samples.size());
  Group<SampleToDecode> deltas, firsts;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    sizes.push_back(samples[i].values.size());
    (samples[i].delta ? deltas : firsts).Add(i, samples[i]);
  }
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, std::span<const std::size_t>(sizes), true, spec()));
  SHOAL_ASSIGN_OR_RETURN(const AqsgdHeader header,
                         ReadAqsgdHeader(payload, parts_.m.bits(), deltas.samples.size(), spec()));
  const DeltaContext context{shape, key, spec()};
  const auto section = payload.subspan(kMessageHeaderBytes, header.delta_bytes);
  const auto rest = payload.subspan(kMessageHeaderBytes + header.delta_bytes);
  if (!deltas.samples.empty()) {
    const BucketFormat* format = parts_.OnePass(header.mode);
    const Status decoded = format != nullptr
                               ? DecodeDeltasOnePass({*format, parts_.scaled}, section,
                                                     deltas.samples, context, deltas.next_m)
                               : DecodeDeltas(Deltas(header.mode), parts_.m, section,
                                              deltas.samples, context, deltas.next_m);
    if (!decoded.ok()) return decoded.WithContext("changes of codec " + spec());
  }
  if (!firsts.samples.empty()) {
    SHOAL_RETURN_IF_ERROR(DecodeFirsts(rest, &firsts, context, header.mode));
  } else if (!rest.empty()) {
    return InvalidArgument("codec " + spec() + ": " + std::to_string(rest.size()) +
                           " bytes too many behind the changes; drop the message and ask for it "
                           "again");
  }
  deltas.MoveTo(next_m);
  firsts.MoveTo(next_m);
  return Status::Ok();
}

}  // namespace

MessagePointer NewAqsgdCodec(AqsgdParts parts) {
  return std::make_shared<AqsgdCodec>(std::move(parts));
}

}  // namespace shoal::compression
