#include "pipeline/compute/spot_comparison.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "pipeline/boundary/decode_task.h"
#include "pipeline/boundary/encode_task.h"
#include "pipeline/compute/micro_batch_rows.h"

namespace shoal::pipeline {
namespace {

// Its segment's part of `values`; `evidence` stays as it is.
Status DecodeSegment(const SpotComparison& of, const DirectionConfig& direction,
                     std::uint32_t number, const std::shared_ptr<ReceivedValues>& values,
                     SegmentEvidence* evidence) {
  DecodeTask task{.direction = direction,
                  .segment = number,
                  .key = direction.Key(of.id.step, of.plan.global_index, number),
                  .id = of.id,
                  .values = values,
                  .frames = evidence->frames,
                  .rows = of.plan.samples.size(),
                  .missing = SentAgain(*evidence, of.plan),
                  .records = std::move(evidence->records),
                  .clock = of.clock,
                  .keep = true};
  Decoding decoding = DecodeNow(&task);
  evidence->records = std::move(decoding.kept.records);
  return decoding.status;
}

Result<Buffer> DecodeAll(const SpotComparison& of, const DirectionConfig& direction,
                         TransferEvidence* evidence) {
  const auto values =
      std::make_shared<ReceivedValues>(of.home, of.plan.samples.size() * of.sample.values());
  for (std::uint32_t k = 0; k < evidence->size(); ++k) {
    SHOAL_RETURN_IF_ERROR(DecodeSegment(of, direction, k, values, &(*evidence)[k]));
  }
  return values->Take();
}

Result<Buffer> OnHost(const SpotComparison& of, const Buffer& values) {
  Buffer host(values.size());
  SHOAL_RETURN_IF_ERROR(of.home->CopyToHost(values.floats(), host.bytes()));
  return Result<Buffer>(std::move(host));
}

// The own output as the stage would have sent it, and as `sent` was: with the same m.
Result<TransferEvidence> CodeOutput(SpotComparison* of, TransferEvidence sent) {
  const DirectionConfig& direction = *of->behind;
  const auto values = std::make_shared<const Buffer>(std::move(of->output_values));
  std::vector<std::uint32_t> all(of->plan.samples.size());
  std::iota(all.begin(), all.end(), 0u);
  TransferEvidence coded;
  for (std::uint32_t k = 0; k < sent.size(); ++k) {
    net::Frame frame;
    frame.micro_batch = of->id;
    EncodeTask task{.direction = direction,
                    .segment = k,
                    .key = direction.Key(of->id.step, of->plan.global_index, k),
                    .values = values,
                    .positions = all,
                    .samples = of->plan.samples,
                    .records = std::move(sent[k].records),
                    .mode = direction.codec->SentMode(sent[k].frames[0]->payload.bytes()),
                    .counted = false,
                    .frame = std::move(frame),
                    .clock = of->clock,
                    .keep = true};
    Encoding encoding = EncodeNow(&task);
    SHOAL_RETURN_IF_ERROR(encoding.status);
    coded.push_back(std::move(encoding.kept));
  }
  SHOAL_ASSIGN_OR_RETURN(of->output_values, OnHost(*of, *values));
  return coded;
}

constexpr double kSpotDifferenceMost = 1e9;

double Distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

}  // namespace

Status DecodeInput(SpotComparison* of) {
  if (!of->before) return Status::Ok();
  SHOAL_ASSIGN_OR_RETURN(of->input_values, DecodeAll(*of, *of->before, &of->input));
  return Status::Ok();
}

Status ComputeAgain(SpotComparison* of) {
  BatchRows rows;
  model::MicroBatch micro_batch;
  micro_batch.id = of->id;
  micro_batch.samples = of->plan.samples;
  micro_batch.rows = static_cast<std::uint32_t>(of->plan.samples.size());
  micro_batch.tokens = of->sample.tokens;
  const bool last = !of->behind;
  SHOAL_RETURN_IF_ERROR(ReadRows(of->data.get(), !of->before, last, &micro_batch, &rows));
  if (of->before) micro_batch.input = std::as_const(of->input_values).floats();
  const std::size_t values = last ? 0 : micro_batch.rows * of->sample.values();
  SHOAL_ASSIGN_OR_RETURN(of->output_values, of->home->Allocate(values));
  const Status status = of->model->Evaluate(micro_batch, of->output_values.floats(), &of->loss);
  of->input_values = Buffer();
  return status;
}

Status CompareOutput(SpotComparison* of) {
  if (!of->behind) return Status::Ok();
  const DirectionConfig& direction = *of->behind;
  SHOAL_ASSIGN_OR_RETURN(const Buffer sent, DecodeAll(*of, direction, &of->output));
  SHOAL_ASSIGN_OR_RETURN(TransferEvidence again, CodeOutput(of, std::move(of->output)));
  SHOAL_ASSIGN_OR_RETURN(const Buffer coded, DecodeAll(*of, direction, &again));
  SHOAL_ASSIGN_OR_RETURN(const Buffer sent_values, OnHost(*of, sent));
  SHOAL_ASSIGN_OR_RETURN(const Buffer coded_values, OnHost(*of, coded));
  const std::span<const float> own = std::as_const(of->output_values).floats();
  const std::vector<float> zeros(own.size());
  const double norm = Distance(own, zeros);
  if (!(norm > 0)) return FailedPrecondition("the output is all zeros: nothing to compare with");
  // Not a number, if there is one in what was sent.
  const double difference = Distance(sent_values.floats(), coded_values.floats()) / norm;
  of->difference = difference < kSpotDifferenceMost ? difference : kSpotDifferenceMost;
  of->coding_error = Distance(coded_values.floats(), own) / norm;
  of->output_values = Buffer();
  return Status::Ok();
}

}  // namespace shoal::pipeline
