#include "compression/device/codecs/device_look.h"

#include <string_view>

namespace shoal::compression {
namespace {

constexpr std::string_view kLookRowsSlot = "look_rows";
constexpr std::string_view kLookedSlot = "looked";

}  // namespace

Status SendFollowed(const DeviceContext& context) {
  std::vector<DeviceSample> samples(context.followed.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].x = context.followed[i];
    samples[i].index = static_cast<std::uint32_t>(i);
  }
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  return context.queue->Wait();  // for what is gone when this returns
}

Result<std::vector<float>> LookAtTokens(const DeviceContext& context, LookPass pass,
                                        std::size_t width, std::span<const LookRow> look_rows) {
  std::vector<float> looked(pass == LookPass::kRows ? look_rows.size() * width : width);
  const std::size_t bytes = looked.size() * sizeof(float);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const list,
                         context.scratch->Reserve(kLookRowsSlot, look_rows.size_bytes()));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(kLookedSlot, bytes));
  context.queue->ToDevice(list, look_rows.data(), look_rows.size_bytes());
  LookJob job;
  job.pass = pass;
  job.hidden = context.shape.hidden;
  job.width = static_cast<std::uint32_t>(width);
  job.count = static_cast<std::uint32_t>(look_rows.size());
  job.look_rows = reinterpret_cast<const LookRow*>(list);
  job.samples = reinterpret_cast<const DeviceSample*>(context.scratch->Get(kSamplesSlot));
  job.out = reinterpret_cast<float*>(at);
  context.queue->Run(job);
  context.queue->ToHost(looked.data(), at, bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  return looked;
}

LookRow LookRowOf(std::size_t token, SampleShape shape, float scale) {
  return {static_cast<std::uint32_t>(token / shape.tokens),
          static_cast<std::uint32_t>(token % shape.tokens), scale};
}

}  // namespace shoal::compression
