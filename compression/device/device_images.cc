#include "compression/device/device_images.h"

#include <vector>

#include "compression/api/sample_layout.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kColumnsSlot = "columns";

}  // namespace

ImageJob DeviceImages::JobFor(const DeviceContext& context, ImagePass pass,
                              std::size_t samples) const {
  auto job = JobOf<ImageJob>(context, samples);
  job.pass = pass;
  job.bits = static_cast<std::uint8_t>(bits_);
  job.hidden = context.shape.hidden;
  job.columns = reinterpret_cast<std::uint32_t*>(context.scratch->Get(kColumnsSlot));
  return job;
}

Result<std::vector<Extremes>> DeviceImages::Run(const DeviceContext& context, ImagePass pass,
                                                std::span<const DeviceSample> samples) const {
  std::vector<Extremes> extremes(samples.size());
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, pass, samples.size()));
  FetchExtremes(context, extremes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  return extremes;
}

Status DeviceImages::Check(const DeviceContext& context,
                           std::span<const DeviceSample> samples) const {
  SHOAL_ASSIGN_OR_RETURN(const auto extremes, Run(context, ImagePass::kCheck, samples));
  return CheckImages(extremes, bits_, context.spec);
}

Status DeviceImages::Make(const DeviceContext& context, std::span<DeviceSample> samples) const {
  if (bits_ == 16) return MakeHalves(context, samples, ImagePass::kStore, true);
  std::vector<DeviceSample> fresh(samples.begin(), samples.end());
  for (DeviceSample& sample : fresh) sample.m = nullptr;
  return MakeCodes(context, fresh);
}

Status DeviceImages::Subtract(const DeviceContext& context,
                              std::span<const DeviceSample> samples) const {
  SHOAL_ASSIGN_OR_RETURN(const auto extremes, Run(context, ImagePass::kSubtract, samples));
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckImages({&extremes[i], 1}, bits_, context.spec));
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(extremes[i].x, kMagnitudeMax, context.spec));
  }
  return Status::Ok();
}

Status DeviceImages::Advance(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool wanted) const {
  if (bits_ == 16) return MakeHalves(context, samples, ImagePass::kAdvance, wanted);
  return MakeCodes(context, samples);
}

Status DeviceImages::MakeHalves(const DeviceContext& context, std::span<DeviceSample> samples,
                                ImagePass pass, bool wanted) const {
  for (bool again = true; again;) {  // exponent 0 nearly always fits
    SHOAL_ASSIGN_OR_RETURN(const auto extremes, Run(context, pass, samples));
    SHOAL_RETURN_IF_ERROR(CheckImages(extremes, bits_, context.spec));
    again = false;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(CheckMagnitude(extremes[i].sum, kDeltaMax, context.spec));
      SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(extremes[i].sum, context.spec));
      again |= exponent != samples[i].exponent;
      samples[i].exponent = exponent;
    }
  }
  if (!wanted) return Status::Ok();
  context.queue->Run(JobFor(context, ImagePass::kLoad, samples.size()));
  return context.queue->Wait();
}

// The sums stay in `values`, as the layers get them unrounded.
Status DeviceImages::MakeCodes(const DeviceContext& context,
                               std::span<const DeviceSample> samples) const {
  const std::size_t bytes = samples.size() * context.shape.hidden * sizeof(std::uint32_t);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const columns, context.scratch->Reserve(kColumnsSlot, bytes));
  context.queue->Zero(columns, bytes);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, ImagePass::kMeasure, samples.size()));
  context.queue->Run(JobFor(context, ImagePass::kCode, samples.size()));
  std::vector<Extremes> extremes(samples.size());
  FetchExtremes(context, extremes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  SHOAL_RETURN_IF_ERROR(CheckImages(extremes, bits_, context.spec));
  for (const Extremes& e : extremes) {
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(e.sum, kDeltaMax, context.spec));
  }
  return Status::Ok();
}

}  // namespace shoal::compression
