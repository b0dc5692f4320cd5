#include "pipeline/boundary/encode_task.h"

#include <memory>
#include <utility>

#include "common/checksum.h"
#include "common/trace.h"
#include "replica/step_types.h"

namespace shoal::pipeline {
namespace {

// A queue of small messages should not hold the memory of large ones.
void Shorten(Buffer* payload, std::size_t bytes) {
  if (bytes < payload->size() / 2) {
    *payload = Buffer::CopyOf(payload->bytes().first(bytes));
  } else {
    payload->Truncate(bytes);
  }
}

// Zeros take the place of a gradient that is not finite, before a codec or its memory sees it. All
// values of the micro-batch are zeros to the task then, those of other segments, too.
Result<bool> ReplaceLost(EncodeTask* task) {
  if (task->direction.forward()) return false;
  const compression::ValueHome& home = *task->direction.home;
  const std::size_t count = task->direction.segments.shape.values();
  for (const std::uint32_t position : task->positions) {
    const std::size_t at = task->direction.segments.Transfer(position, task->segment) * count;
    const auto values = task->values->floats().subspan(at, count);
    SHOAL_ASSIGN_OR_RETURN(const bool within, home.AllWithin(values, replica::kGradientMost));
    if (within) continue;
    SHOAL_ASSIGN_OR_RETURN(Buffer zeros, home.Allocate(task->values->floats().size()));
    SHOAL_RETURN_IF_ERROR(home.Zero(zeros.floats()));
    task->values = std::make_shared<const Buffer>(std::move(zeros));
    return true;
  }
  return false;
}

Status EncodeOnLink(EncodeTask* task, Encoding* result) {
  const std::size_t count = task->direction.segments.shape.values();
  std::vector<std::span<const float>> samples;
  for (const std::uint32_t position : task->positions) {
    samples.push_back(task->values->floats().subspan(position * count, count));
    net::FrameSample header;
    header.sample = task->samples[position];
    result->frame.samples.push_back(header);
  }
  const auto next = std::make_shared<compression::LowRankState>();
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      task->direction.codec->stateful()->EncodeOnLink(
          {samples, task->direction.segments.shape, task->key, task->position, task->activations},
          *task->before, result->frame.payload.bytes(), next.get(),
          task->counted ? &result->stats : nullptr));
  result->next = next;
  result->without_m = task->positions;
  Shorten(&result->frame.payload, bytes);
  return Status::Ok();
}

Status EncodeSamples(EncodeTask* task, Encoding* result) {
  const compression::MessageCodec& codec = *task->direction.codec;
  const compression::SampleShape shape = task->direction.segments.shape;
  const std::size_t count = shape.values();
  std::vector<compression::SampleToEncode> samples;
  for (const std::uint32_t position : task->positions) {
    const std::optional<storage::DeltaRecord>* const record =
        task->records.empty() ? nullptr : &task->records[position];
    const bool known = record != nullptr && record->has_value();
    const std::size_t at = task->direction.segments.Transfer(position, task->segment) * count;
    samples.push_back({task->values->floats().subspan(at, count),
                       known ? (*record)->image.bytes() : std::span<const std::byte>()});
    net::FrameSample header;
    header.sample = task->samples[position];
    if (known && codec.keeps_m() && task->mode != compression::DeltaMode::kFull) {
      header.base_version = (*record)->version;
      header.base_checksum = (*record)->checksum;
    } else {
      result->without_m.push_back(position);
    }
    result->frame.samples.push_back(header);
  }
  const bool keeps = codec.keeps_m() || codec.keeps_residual();
  std::vector<Buffer> next_m(keeps ? samples.size() : 0);
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      codec.Encode(samples, shape, task->key, task->mode, result->frame.payload.bytes(), next_m,
                   task->counted ? &result->stats : nullptr));
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    const std::uint64_t checksum = Checksum64(next_m[i].bytes());
    result->images.push_back({task->positions[i], std::move(next_m[i]), checksum});
  }
  Shorten(&result->frame.payload, bytes);
  return Status::Ok();
}

}  // namespace

Encoding EncodeNow(EncodeTask* task) {
  const TimePoint start = task->clock->Now();
  const TimePoint traced = TraceStart();
  Encoding result;
  const Result<bool> lost = ReplaceLost(task);
  result.status = lost.status();
  if (!lost.ok()) return result;
  result.lost = *lost;
  result.frame = std::move(task->frame);
  result.frame.payload = Buffer(task->direction.codec->EncodedBytesMax(
      task->direction.segments.shape, task->positions.size()));
  result.status =
      task->before != nullptr ? EncodeOnLink(task, &result) : EncodeSamples(task, &result);
  if (!result.status.ok()) return result;
  if (task->direction.logged) result.digest = DigestOf(result.frame);
  if (task->keep) {
    result.kept.frames.push_back(std::make_shared<const net::Frame>(CopyOf(result.frame)));
    result.kept.records = std::move(task->records);
  }
  result.ms = Milliseconds(task->clock->Now() - start);
  TraceSpan(task->direction.forward() ? "act.encoded" : "grad.encoded", result.frame.micro_batch,
            traced, task->segment);
  return result;
}

}  // namespace shoal::pipeline
