#include "net/pacing/upload_pacer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Duration FromSeconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// Time in the queue that is kept: above what timers and bursts make, below what is felt. A slow
// line also needs the time of a chunk.
constexpr double kTargetSeconds = 0.004;
constexpr double kTargetBytes = 8 * 1024;
// Below this part of the target the line may idle.
constexpr double kEmptyShare = 0.25;
constexpr Duration kLagMin = milliseconds(200);
// A queue above the target is to be gone after so many lags; at most so much is taken off at once.
constexpr double kDrainLags = 2;
constexpr double kCutMax = 0.5;
// Growth per lag: slow near the line's rate, faster when the line has long had room. Without the
// fast part a pace that once was a hundred times too low would take most of a minute to rise.
constexpr double kGrowthFirst = 0.005;
constexpr double kGrowthFactor = 1.5;
constexpr double kGrowthMax = 0.2;
constexpr int kGrowthsSlow = 4;
// Growth per lag up to this part of what the line took before a queue that may have been none, but
// processors that stood still. Where the queue is back on the way there, the line is slower, and
// so much of what was known is left.
constexpr double kGrowthReturn = 0.06;
constexpr double kReturnShare = 0.97;
constexpr double kDisproved = 0.7;
// Between bursts less is seen: growth per lag, up to so many times what arrived within this time.
constexpr double kBurstGrowth = 0.05;
constexpr double kBurstAheadMax = 2;
constexpr Duration kBurstWindow = milliseconds(75);
// A router that was idle passes about this much at once (its token bucket). Where a line is told
// by a burst, so many of the burst's bytes may be no rate.
constexpr double kBucketBytes = 64 * 1024;
// Fewer bytes arrive in a sample when nothing is acknowledged.
constexpr std::uint64_t kFewBytes = 2 * 1448;
// A connection that still starts slowly delivers so many times what it did a lag before. What waits
// then, waits for processors: no line is full yet.
constexpr double kStarting = 1.25;
// Looks that are no more lags apart see what follows on each other.
constexpr int kInARow = 2;
// How far the pace may be above what is delivered.
constexpr double kAheadMax = 1.25;
// Weight of a new measurement of the line's rate. With a queue that is none, but a processor's,
// what was delivered is what we sent, and perhaps less than the line takes. A line that became
// slower has a long queue soon: so many targets.
constexpr double kLineWeightUp = 0.1;
constexpr double kLineWeightDown = 0.4;
constexpr double kSureTargets = 5;
constexpr double kSureMin = 0.1;
// Others may fill the queue for ever. We keep a trickle of enough packets to see what becomes of
// them (pacing_loop.cc). A pace below that would never rise again.
constexpr double kRateMin = 128 * 1024;
constexpr double kSeenRate = 2 * kRateMin;
// A faster line's queue is short, and what seems one is often the processors.
constexpr double kRateMax = 125e6;
// The least delay is known for some time only (queue_delay.h), so the queue must be empty now and
// then, for a few pings.
constexpr Duration kDrainEvery = seconds(30);
constexpr Duration kDrainMin = milliseconds(100);
constexpr Duration kDrainMax = milliseconds(240);
constexpr double kDrainShare = 0.75;
constexpr double kDrainMargin = 2;

}  // namespace

BitsPerSecond UploadPacer::pace_of(double bytes_per_second) {
  return {static_cast<std::uint64_t>(std::llround(bytes_per_second * 8))};
}

Duration UploadPacer::Lag() const { return std::max(kLagMin, round_trip_ + milliseconds(50)); }

Duration UploadPacer::Target() const {
  const double chunk = rate_ > 0 ? kTargetBytes / rate_ : 0;
  return FromSeconds(kTargetSeconds + chunk);
}

double UploadPacer::DeliveredRate() const {
  // The first one's bytes were delivered before it.
  std::uint64_t bytes = 0;
  for (std::size_t i = 1; i < seen_.size(); ++i) bytes += seen_[i].delivered_bytes;
  const double span = Seconds(seen_.back().until - seen_.front().from);
  return span > 0 ? static_cast<double>(bytes) / span : 0;
}

UploadPacer::Burst UploadPacer::FastestBurst() const {
  Burst most;
  for (std::size_t first = 0; first < seen_.size(); ++first) {
    std::uint64_t bytes = 0;
    for (std::size_t i = first + 1; i < seen_.size(); ++i) {
      bytes += seen_[i].seen_bytes;
      const Duration span = seen_[i].until - seen_[first].from;
      if (span < kBurstWindow) continue;
      const auto arrived = static_cast<double>(bytes);
      most.rate = std::max(most.rate, arrived / Seconds(span));
      if (seen_[first].held) break;
      most.line = std::max(most.line, (arrived - kBucketBytes) / Seconds(span));
      break;
    }
  }
  return most;
}

BitsPerSecond UploadPacer::Update(TimePoint now, const PaceSample& sample) {
  std::optional<Duration> queue = sample.queue;
  if (queue) {
    round_trip_ = sample.round_trip;
    queue = std::min(*queue, sample.one_way_queue.value_or(*queue));
  }
  const bool held = sample.under_way && sample.seen_bytes < kFewBytes;
  seen_.push_back({now, now + sample.took, queue, sample.delivered_bytes, sample.limited,
                   sample.seen_bytes, held});
  if (!sample.queue) emptied_at_ = now;
  const Duration lag = Lag();
  while (seen_.size() > 2 && now - seen_[1].from >= lag) seen_.pop_front();
  const bool whole = now - seen_.front().from >= lag;
  const bool busy = std::all_of(seen_.begin(), seen_.end(),
                                [](const Seen& seen) { return seen.queue.has_value(); });
  if (whole && busy && now - changed_at_ >= lag) Adjust(now);
  if (whole && !busy && now - changed_at_ >= lag) GrowBetweenBursts(now);
  if (rate_ > 0 && now < drained_until_) return pace_of(rate_ * kDrainShare);
  return pace();
}

void UploadPacer::Drain(TimePoint now, Duration queue) {
  const Duration length = FromSeconds(kDrainMargin * Seconds(queue) / (1 - kDrainShare));
  drained_until_ = now + std::clamp(length, kDrainMin, kDrainMax);
  changed_at_ = drained_until_;
  emptied_at_ = now;
}

void UploadPacer::GrowBetweenBursts(TimePoint now) {
  bool waited = false, empty = true, limited = false;
  for (const Seen& seen : seen_) {
    limited = limited || seen.limited;
    if (!seen.queue) continue;
    waited = true;
    empty = empty && Seconds(*seen.queue) < kEmptyShare * Seconds(Target());
  }
  if (rate_ == 0 || !limited || !empty || (!waited && rate_ > kSeenRate)) return;
  changed_at_ = now;
  const Burst burst = FastestBurst();
  line_ = std::max(line_, std::min(burst.line, rate_));
  known_ = std::max(known_, std::min(burst.rate, rate_));
  const double most = std::max(kSeenRate, kBurstAheadMax * known_);
  rate_ = std::max(rate_, std::min(most, rate_ * (1 + (waited ? kBurstGrowth : kGrowthMax))));
}

void UploadPacer::Adjust(TimePoint now) {
  Duration shortest = Duration::max();
  for (const Seen& seen : seen_) shortest = std::min(shortest, *seen.queue);
  const bool limited =
      std::any_of(seen_.begin(), seen_.end(), [](const Seen& seen) { return seen.limited; });
  const double queue = Seconds(shortest);
  const double target = Seconds(Target());
  changed_at_ = now;
  const double over = queue - target;
  if (queue < kEmptyShare * target) emptied_at_ = now;
  if (rate_ > 0 && now - emptied_at_ > kDrainEvery) {
    Drain(now, shortest);
    return;
  }
  const double delivered = DeliveredRate();
  // What was acknowledged late comes fast, as does what a router's bucket passes. Not twice in a
  // row, though.
  const bool in_a_row = now - std::exchange(looked_at_, now) < kInARow * Lag();
  const double before = in_a_row ? delivered_ : 0;
  const double steady = std::min(delivered, before);
  delivered_ = delivered;
  if (rate_ == 0 && delivered > kStarting * before) return;
  if (std::max(rate_, delivered) > kRateMax) {
    rate_ = line_ = known_ = 0;
  } else if (over > 0) {
    Shrink(delivered, steady, over, target);
  } else if (rate_ > 0 && limited && rate_ < kAheadMax * delivered) {
    Grow(delivered, steady, queue, target);
  }
}

void UploadPacer::Shrink(double delivered, double steady, double over, double target) {
  // The queue was never empty, so this is what the line takes.
  const double sure = std::clamp(over / (kSureTargets * target), kSureMin, 1.0);
  const double weight = delivered > line_ ? kLineWeightUp : kLineWeightDown * sure;
  const double seen = delivered > line_ ? std::max(line_, steady) : delivered;
  line_ = line_ == 0 ? seen : line_ + weight * (seen - line_);
  known_ = std::max(line_, std::exchange(returning_, false) ? kDisproved * known_ : known_);
  const double cut = std::min(kCutMax, over / (kDrainLags * Seconds(Lag())));
  rate_ = std::max(kRateMin, line_ * (1 - cut));
  growths_ = 0;
}

void UploadPacer::Grow(double delivered, double steady, double queue, double target) {
  // Slower the nearer the target, and never faster while anything waits.
  const double room = std::min(1.0, 1.1 - queue / target);
  growths_ = queue < kEmptyShare * target ? growths_ + 1 : 0;
  const double growth = std::min(
      kGrowthMax, kGrowthFirst * std::pow(kGrowthFactor, std::max(0, growths_ - kGrowthsSlow)));
  if (rate_ < kReturnShare * known_) {
    returning_ = true;
    rate_ = std::min(rate_ * (1 + std::max(growth, kGrowthReturn) * room), kReturnShare * known_);
  } else {
    rate_ += rate_ * growth * room;
  }
  line_ = std::max(line_, std::min(steady, rate_));
  known_ = std::max({known_, line_, std::min(delivered, rate_)});
}

}  // namespace shoal::net
