#include "model/synthetic_stage.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>

namespace shoal::model {
namespace {

constexpr double kMillisecondsMax = 60'000;
constexpr std::uint32_t kWeightPartsMax = 1024;
constexpr auto kOwedMax = std::chrono::milliseconds(20);
constexpr auto kAtOnce = std::chrono::milliseconds(1);
// Gaussian values that all others are windows of: small enough for a core's cache.
constexpr std::size_t kTableValues = std::size_t{1} << 15;
// Logarithm of a token's scale in activations, and of a channel's: spread, and the rare large ones
// that trained transformers have.
constexpr float kTokenSpread = 0.25f;
constexpr float kChannelSpread = 0.3f;
constexpr std::uint32_t kLargeChannelEvery = 256;
constexpr float kLargeChannel = 3.0f;
// A tenth of the tokens then holds 47 % of a gradient's energy, as measured on small models.
constexpr float kGradientSpread = 0.6f;
constexpr float kGradientScale = 1e-3f;

enum Stream : std::uint64_t { kTable, kChannel, kToken, kBase, kVisit, kEnergy, kGradient };

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014),
// as a hash of a counter.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::uint64_t Draw(Stream stream, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return Mix(Mix(Mix(Mix(stream) ^ a) ^ b) ^ c);
}

// Box and Muller.
float Gaussian(std::uint64_t bits) {
  const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffffu) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

std::uint64_t ThreadCpuNs() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// to = scale * (base + part * change), times a channel's own scale.
void MixToken(const float* __restrict base, const float* __restrict change,
              const float* __restrict channel, float scale, float part, std::size_t count,
              float* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = scale * channel[i] * (base[i] + part * change[i]);
}

void ScaleToken(const float* __restrict values, float scale, std::size_t count,
                float* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = scale * values[i];
}

Status NoWeights(const char* what) {
  return FailedPrecondition(std::string(what) +
                            ": the stage of a bench has no weights; train a model for that");
}

Status CheckRange(std::size_t first, std::size_t count) {
  if (first <= 1 && count <= 1 - first) return Status::Ok();
  return InvalidArgument("a synthetic stage has one value of state");
}

class SyntheticStage final : public StageModel {
 public:
  SyntheticStage(ModelSpec spec, StageOptions stage, const SyntheticOptions& options,
                 std::shared_ptr<SyntheticMeter> meter, SyntheticTime time)
      : spec_(std::move(spec)),
        stage_(std::move(stage)),
        options_(options),
        meter_(std::move(meter)),
        time_(std::move(time)),
        table_(kTableValues + spec_.hidden),
        channels_(spec_.hidden) {
    for (std::size_t i = 0; i < kTableValues; ++i) {
      table_[i] = Gaussian(Draw(kTable, stage_.range.first_layer, i, 0));
    }
    for (std::size_t i = kTableValues; i < table_.size(); ++i) table_[i] = table_[i - kTableValues];
    for (std::uint32_t i = 0; i < spec_.hidden; ++i) {
      // The residual stream keeps its channels: all stages have the same large ones.
      const std::uint64_t bits = Draw(kChannel, i, 0, 0);
      channels_[i] = std::exp(kChannelSpread * Gaussian(bits));
      if (Mix(bits) % kLargeChannelEvery == 0) channels_[i] *= kLargeChannel;
    }
  }

  const ModelSpec& spec() const override { return spec_; }
  const StageOptions& options() const override { return stage_; }
  std::string device_name() const override { return "synthetic"; }

  Status Forward(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) override {
    const TimePoint start = time_.clock->Now();
    const std::size_t values = std::size_t{micro_batch.rows} * micro_batch.tokens * spec_.hidden;
    if (micro_batch.samples.size() != micro_batch.rows || micro_batch.tokens == 0) {
      return InvalidArgument("a micro-batch with another number of samples than rows");
    }
    if (output.size() != (last() ? 0 : values) ||
        (!first() && micro_batch.input.size() != values)) {
      return InvalidArgument("a micro-batch of another shape than the stage's");
    }
    if (kept_.contains(micro_batch.id)) return FailedPrecondition("the micro-batch came twice");
    Kept& kept = kept_[micro_batch.id];
    kept.tokens = micro_batch.tokens;
    for (const SampleId sample : micro_batch.samples) {
      kept.samples.push_back({sample, visits_[sample]++});
    }
    if (!last()) Generate([&] { MakeActivations(kept, output); });
    if (last()) {
      loss->labels = static_cast<std::uint64_t>(
          std::count_if(micro_batch.labels.begin(), micro_batch.labels.end(),
                        [](std::int32_t label) { return label >= 0; }));
    }
    Pass(start, options_.forward_ms);
    return Status::Ok();
  }

  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override {
    const TimePoint start = time_.clock->Now();
    const auto kept = kept_.find(id);
    if (kept == kept_.end() || kept->second.went_back) {
      return FailedPrecondition("backward of a micro-batch that did not go forward");
    }
    const std::size_t values =
        kept->second.samples.size() * std::size_t{kept->second.tokens} * spec_.hidden;
    if (output_gradient.size() != (last() ? 0 : values) ||
        input_gradient.size() != (first() ? 0 : values)) {
      return InvalidArgument("a gradient of another shape than the micro-batch");
    }
    kept->second.went_back = true;
    if (!first()) Generate([&] { MakeGradients(kept->second, input_gradient); });
    Pass(start, options_.backward_ms - options_.weight_ms);
    return Status::Ok();
  }

  Result<bool> BackwardWeights(MicroBatchId id) override {
    const TimePoint start = time_.clock->Now();
    const auto kept = kept_.find(id);
    if (kept == kept_.end() || !kept->second.went_back) {
      return FailedPrecondition("weight gradients before the gradient of the input");
    }
    const bool more = ++kept->second.weight_parts_done < options_.weight_parts;
    if (!more) kept_.erase(kept);
    Pass(start, options_.weight_ms / options_.weight_parts);
    return more;
  }

  Status Evaluate(const MicroBatch&, std::span<float>, StepLoss*) override {
    return NoWeights("held-out loss");
  }
  Status Logits(const MicroBatch&, bool, std::span<float>) override { return NoWeights("scores"); }
  void ZeroGradients() override { kept_.clear(); }

  // All of the nothing that it has is complete with the last part.
  std::vector<std::vector<std::size_t>> weight_parts() const override {
    std::vector<std::vector<std::size_t>> parts(options_.weight_parts);
    parts.back().push_back(0);
    return parts;
  }
  std::span<const TensorLayout> layout() const override { return layout_; }
  std::size_t state_size() const override { return 1; }
  Status Read(StateVector, std::size_t first, std::span<float> values) override {
    SHOAL_RETURN_IF_ERROR(CheckRange(first, values.size()));
    std::fill(values.begin(), values.end(), 0.0f);
    return Status::Ok();
  }
  Status Write(StateVector, std::size_t first, std::span<const float> values) override {
    return CheckRange(first, values.size());
  }
  std::vector<TensorLayout> shared_tensors() const override { return {}; }
  double SquaredGradientNorm(double) override { return 0; }
  Status Apply(std::uint64_t, double, double global_norm, double) override {
    return std::isfinite(global_norm) ? Status::Ok()
                                      : InvalidArgument("the gradient norm is not finite");
  }

  Status Save(const std::string&) override { return NoWeights("checkpoint"); }
  Status Load(const std::map<std::string, std::string>& weight_files,
              const std::map<std::string, std::string>& optimizer_files) override {
    return weight_files.empty() && optimizer_files.empty() ? Status::Ok() : NoWeights("loading");
  }
  Status LoadDirectory(const storage::ModelDirectory&) override { return NoWeights("loading"); }

  std::vector<std::string> parts() const override { return {}; }
  std::uint64_t StateBytes() const override { return 0; }
  std::uint64_t MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const override {
    return std::uint64_t{rows} * tokens * spec_.hidden * sizeof(float);
  }
  std::uint64_t WeightChecksum() const override { return 1; }

 private:
  struct Visit {
    SampleId sample;
    std::uint32_t number = 0;
  };
  struct Kept {
    std::vector<Visit> samples;
    std::uint32_t tokens = 0;
    bool went_back = false;
    std::uint32_t weight_parts_done = 0;
  };

  bool first() const { return stage_.range.first_layer == 0; }
  bool last() const { return stage_.range.last_layer == spec_.layers(); }

  // Until `ms` after `start`. If a sleep takes too long, the next operation is shorter by that
  // time, so that the sum is right. This holds only if it follows at once: a stage that waits was
  // not held up by the sleep.
  void Pass(TimePoint start, double ms) {
    const TimePoint whole =
        start + std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
    if (start - ended_ > kAtOnce) owed_ = {};
    const TimePoint wanted = std::max(start, whole - owed_);
    if (time_.sleep_until) {
      time_.sleep_until(wanted);
    } else {
      std::this_thread::sleep_until(wanted);
    }
    ended_ = time_.clock->Now();
    owed_ += std::max(ended_ - wanted, Duration::zero()) - (whole - wanted);
    // A machine that has no time for the stage at all shows in the result.
    owed_ = std::min(owed_, Duration(kOwedMax));
  }

  template <typename Work>
  void Generate(Work work) {
    const std::uint64_t before = ThreadCpuNs();
    work();
    if (meter_) meter_->cpu_ns.fetch_add(ThreadCpuNs() - before, std::memory_order_relaxed);
  }

  const float* Window(std::uint64_t bits) const { return table_.data() + bits % kTableValues; }

  void MakeActivations(const Kept& kept, std::span<float> output) const {
    float* to = output.data();
    const std::uint64_t stage = stage_.range.first_layer;
    for (const Visit& visit : kept.samples) {
      // Two independent changes are apart by sqrt(2) times their norm.
      const auto part = static_cast<float>(options_.change * 0.7071067811865476 *
                                           std::pow(options_.change_decay, visit.number));
      for (std::uint32_t t = 0; t < kept.tokens; ++t, to += spec_.hidden) {
        const float scale =
            std::exp(kTokenSpread * Gaussian(Draw(kToken, visit.sample.value, stage, t)));
        MixToken(Window(Draw(kBase, visit.sample.value, stage, t)),
                 Window(Draw(kVisit, visit.sample.value + (stage << 40), visit.number, t)),
                 channels_.data(), scale, part, spec_.hidden, to);
      }
    }
  }

  void MakeGradients(const Kept& kept, std::span<float> gradient) const {
    float* to = gradient.data();
    const std::uint64_t stage = stage_.range.first_layer;
    for (const Visit& visit : kept.samples) {
      for (std::uint32_t t = 0; t < kept.tokens; ++t, to += spec_.hidden) {
        // A token that matters matters to all stages and at each visit.
        const float scale =
            kGradientScale *
            std::exp(kGradientSpread * Gaussian(Draw(kEnergy, visit.sample.value, 0, t)));
        ScaleToken(Window(Draw(kGradient, visit.sample.value + (stage << 40), visit.number, t)),
                   scale, spec_.hidden, to);
      }
    }
  }

  const ModelSpec spec_;
  const StageOptions stage_;
  const SyntheticOptions options_;
  const std::shared_ptr<SyntheticMeter> meter_;
  const SyntheticTime time_;
  const std::array<TensorLayout, 1> layout_ = {TensorLayout{"synthetic", 0, 1, {1}}};
  std::vector<float> table_;
  std::vector<float> channels_;
  std::unordered_map<SampleId, std::uint32_t> visits_;
  std::map<MicroBatchId, Kept> kept_;
  TimePoint ended_{};  // the last operation
  Duration owed_{};    // time that passed beyond what was asked for
};

}  // namespace

Status CheckSyntheticOptions(const SyntheticOptions& o) {
  for (const double ms : {o.forward_ms, o.backward_ms, o.weight_ms}) {
    if (!(ms >= 0 && ms <= kMillisecondsMax)) {
      return InvalidArgument("a synthetic stage takes 0 to 60000 ms for each operation");
    }
  }
  if (o.weight_ms > o.backward_ms) {
    return InvalidArgument("weight_ms is a part of backward_ms and must not exceed it");
  }
  if (o.weight_parts < 1 || o.weight_parts > kWeightPartsMax) {
    return InvalidArgument("weight_parts of a synthetic stage is between 1 and 1024");
  }
  if (!(o.change >= 0 && o.change <= 1 && o.change_decay >= 0 && o.change_decay <= 1)) {
    return InvalidArgument("change and change_decay of a synthetic stage are between 0 and 1");
  }
  return Status::Ok();
}

Result<std::unique_ptr<StageModel>> NewSyntheticStage(const ModelSpec& spec,
                                                      const StageOptions& stage,
                                                      const SyntheticOptions& options,
                                                      std::shared_ptr<SyntheticMeter> meter,
                                                      SyntheticTime time) {
  SHOAL_RETURN_IF_ERROR(CheckSyntheticOptions(options));
  if (stage.range.first_layer >= stage.range.last_layer || stage.range.last_layer > spec.layers()) {
    return InvalidArgument("the stage's layers are not within the model's");
  }
  return std::unique_ptr<StageModel>(
      std::make_unique<SyntheticStage>(spec, stage, options, std::move(meter), std::move(time)));
}

}  // namespace shoal::model
