#include "pipeline/boundary/decode_task.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/checksum.h"
#include "common/trace.h"

namespace shoal::pipeline {
namespace {

// Decodes the samples at `positions`, which `frame` carries in this order, without those at
// `without`.
Status DecodeFrame(DecodeTask* task, const net::Frame& frame,
                   std::span<const std::uint32_t> positions, std::span<const std::uint32_t> without,
                   Decoding* result) {
  const compression::SampleShape shape = task->direction.segments.shape;
  const std::size_t count = shape.values();
  SHOAL_ASSIGN_OR_RETURN(const std::span<float> values, task->values->Get());
  std::vector<compression::SampleToDecode> samples(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    samples[i].delta = frame.samples[i].base_version != 0;
    if (std::find(without.begin(), without.end(), positions[i]) != without.end()) continue;
    const std::size_t at = task->direction.segments.Transfer(positions[i], task->segment) * count;
    samples[i].values = values.subspan(at, count);
    if (samples[i].delta) {
      samples[i].m = task->records[positions[i]]->image.bytes();
    } else {
      result->without_m.push_back(positions[i]);
    }
  }
  std::vector<Buffer> next_m(task->direction.codec->keeps_m() ? samples.size() : 0);
  SHOAL_RETURN_IF_ERROR(
      task->direction.codec->Decode(frame.payload.bytes(), samples, shape, task->key, next_m));
  result->mode = task->direction.codec->SentMode(frame.payload.bytes());
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    if (samples[i].values.empty()) continue;
    const std::uint64_t checksum = Checksum64(next_m[i].bytes());
    result->images.push_back({positions[i], std::move(next_m[i]), checksum});
  }
  return Status::Ok();
}

Status DecodeFrames(DecodeTask* task, Decoding* result) {
  std::vector<std::uint32_t> all(task->rows);
  std::iota(all.begin(), all.end(), 0u);
  SHOAL_RETURN_IF_ERROR(DecodeFrame(task, *task->frames[0], all, task->missing, result));
  if (task->missing.empty()) return Status::Ok();
  return DecodeFrame(task, *task->frames[1], task->missing, {}, result);
}

}  // namespace

Result<std::span<float>> ReceivedValues::Get() {
  MutexLock lock(mutex_);
  if (block_.empty()) {
    SHOAL_ASSIGN_OR_RETURN(block_, home_->Allocate(count_));
  }
  return block_.floats();
}

Buffer ReceivedValues::Take() {
  MutexLock lock(mutex_);
  return std::move(block_);
}

Decoding DecodeNow(DecodeTask* task) {
  const TimePoint start = task->clock->Now();
  const TimePoint traced = TraceStart();
  Decoding result;
  result.status = DecodeFrames(task, &result);
  if (!result.status.ok()) return result;
  if (task->direction.logged) {
    for (const auto& frame : task->frames) result.digest += DigestOf(*frame);
  }
  if (task->keep) result.kept = {std::move(task->frames), std::move(task->records)};
  result.ms = Milliseconds(task->clock->Now() - start);
  TraceSpan(task->direction.forward() ? "act.decoded" : "grad.decoded", task->id, traced,
            task->segment);
  return result;
}

}  // namespace shoal::pipeline
