#include "compression/device/device_section.h"

#include "common/half.h"

namespace shoal::compression {

// ---- scratch memory --------------------------------------------------------------------------

DeviceScratch::~DeviceScratch() {
  for (const auto& [slot, part] : slots_) {
    if (part.memory != nullptr) queue_->Free(part.memory);
  }
}

Result<std::byte*> DeviceScratch::Reserve(std::string_view slot, std::size_t bytes) {
  const auto at = slots_.find(slot);
  Part& part = at != slots_.end() ? at->second : slots_[std::string(slot)];
  if (part.memory != nullptr && part.bytes >= bytes) return part.memory;
  if (part.memory != nullptr) queue_->Free(part.memory);
  part = {};
  SHOAL_ASSIGN_OR_RETURN(part.memory, queue_->Allocate(bytes));
  part.bytes = bytes;
  return part.memory;
}

std::byte* DeviceScratch::Get(std::string_view slot) const {
  const auto at = slots_.find(slot);
  return at == slots_.end() ? nullptr : at->second.memory;
}

DeviceScratch* DeviceScratch::Inside(std::string_view section) {
  const auto at = inside_.find(section);
  if (at != inside_.end()) return at->second.get();
  return inside_.emplace(section, std::make_unique<DeviceScratch>(queue_)).first->second.get();
}

// ---- samples of a job ------------------------------------------------------------------------

Status SendSamples(const DeviceContext& context, std::span<const DeviceSample> samples) {
  const std::size_t bytes = samples.size() * sizeof(Extremes);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kSamplesSlot, samples.size_bytes()));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const extremes, context.scratch->Reserve(kExtremesSlot, bytes));
  context.queue->ToDevice(at, samples.data(), samples.size_bytes());
  context.queue->Zero(extremes, bytes);
  return Status::Ok();
}

void FetchExtremes(const DeviceContext& context, std::span<Extremes> extremes) {
  context.queue->ToHost(extremes.data(), context.scratch->Get(kExtremesSlot),
                        extremes.size_bytes());
}

Result<std::vector<double>> TokenEnergies(const DeviceContext& context) {
  std::vector<double> energies(context.samples * context.shape.tokens);
  const std::size_t bytes = energies.size() * sizeof(double);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(kScalesSlot, bytes));
  EnergyJob job;
  job.hidden = context.shape.hidden;
  job.tokens = context.shape.tokens;
  job.count = static_cast<std::uint32_t>(context.samples);
  job.samples = reinterpret_cast<const DeviceSample*>(context.scratch->Get(kSamplesSlot));
  job.energies = reinterpret_cast<double*>(at);
  context.queue->Run(job);
  context.queue->ToHost(energies.data(), at, bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  return energies;
}

Status CheckImages(std::span<const Extremes> extremes, int bits, std::string_view spec) {
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    const std::uint32_t seen = extremes[i].m;
    if (seen < kHalfInfinity) continue;
    const std::string what = seen == kWrongImage ? "its header is not that of this shape and of " +
                                                       std::to_string(bits) + " bits"
                             : seen == kWrongScale ? "a scale is out of range"
                                                   : "a value is not finite";
    return InvalidArgument("codec " + std::string(spec) + ": m image " + std::to_string(i) + ": " +
                           what + "; drop this m, the sample becomes a first visit");
  }
  return Status::Ok();
}

}  // namespace shoal::compression
