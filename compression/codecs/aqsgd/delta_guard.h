// DeltaGuard: notices when AQ-SGD's premise fails and changes how a link sends.
//
// The premise is that a sample's activation changes little between visits (AQ-SGD paper, section
// 3). With too high a learning rate changes and their coding errors grow, and `aqsgd` ends worse
// than `direct`. The sender takes the relative change ||x - m|| / ||x|| of every token and averages
// the median of each message, or half of the 90th percentile where that is more. It raises
// DeltaMode where the average is large, and lowers it when it is small again. Every message
// contains its mode, so both ends agree. Pure. Thread: one at a time.
//
// Why tokens: where the first one is large (attention sinks), it holds nearly all energy of a
// sample and hides what happens to the others. Why half of the 90th percentile: in good runs it is
// up to twice the median (docs/quality).
//
// The thresholds. Fine-tuning that ends within 1.3 % of fp32 has medians of .07 to .11 in its
// second epoch, .02 to .03 in its last (docs/quality); runs that went wrong (scales shared by
// tokens, fresh dropout masks, too high a rate) stayed above .18, mostly above .3, as ratios of
// energies. So one of .3 never triggers in a good run. Doubling the bits compensates for such a
// change: a delta's coding error is its size times a constant per width (.43 at 2 bits, about .1 at
// 4). At 1 the change is as large as the activation, and coding the activation itself is no worse.
//
// What keeps a link from alternating: more bits bring m closer to the activation, so in a wide mode
// changes are smaller than they will be after it. The guard therefore goes back only at half of a
// threshold and not before each sample was sent in the mode once, and stays twice as long each time
// that it has to come back. It takes the first visits that it has seen for the messages of an
// epoch.

#ifndef SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_GUARD_H_
#define SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_GUARD_H_

#include <cstdint>

#include "compression/api/codec.h"

namespace shoal::compression {

class DeltaGuard {
 public:
  // kDelta -> kWideDelta above kWide, -> kFull above kFull; one step down below half of what led
  // up. Each step needs kPatience messages with changes since the one before, a step down stay() of
  // them.
  static constexpr double kWide = 0.3;
  static constexpr double kFull = 1.0;
  static constexpr std::int64_t kPatience = 8;
  static constexpr std::int64_t kStayLeast = 64;
  static constexpr std::int64_t kStayMost = std::int64_t{1} << 24;

  DeltaMode mode() const { return mode_; }
  // What is averaged of a message, from quantiles of its tokens' changes.
  static double Change(double median, double p90);
  // The average; 0 before the first message with changes.
  double relative_delta() const { return average_; }
  // Messages with changes between the last step up and a step down.
  std::int64_t stay() const { return stay_; }

  // What Encode counted for the link's next message.
  void Observe(const CodingStats& stats);

 private:
  void StepTo(DeltaMode next);

  DeltaMode mode_ = DeltaMode::kDelta;
  double average_ = 0;
  std::int64_t seen_ = 0;          // since the last step
  std::int64_t first_visits_ = 0;  // messages without a change
  std::int64_t stay_ = kPatience;
  bool came_back_ = false;  // the last step was down
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_GUARD_H_
