#include "daemon/terms/stage_memory.h"

#include <algorithm>

#include "common/log.h"
#include "common/units.h"

namespace shoal::daemon {

StageMemory::StageMemory(Executor* control, Executor* compute, StagePool* pool,
                         std::uint64_t asked_bytes, std::uint64_t bytes, Owner* owner)
    : control_(control),
      compute_(compute),
      pool_(pool),
      owner_(owner),
      lives_(std::make_shared<bool>(true)),
      asked_(asked_bytes),
      bytes_(bytes),
      bound_(bytes) {}

Status StageMemory::Check(std::uint64_t asked_bytes) const {
  return pool_ != nullptr ? pool_->Check(asked_bytes) : Status::Ok();
}

void StageMemory::Allow(std::uint64_t asked_bytes, std::optional<std::uint64_t> stage_bytes) {
  SHOAL_ASSERT_ON(*control_);
  if (pool_ == nullptr || asked_bytes == asked_) return;
  const bool lower = asked_bytes > 0 && (bound_ == 0 || asked_bytes < bound_);
  asked_ = asked_bytes;
  // Who may take as much as before, or more, stays.
  Ask(lower ? stage_bytes : std::nullopt);
}

// Between the operations of the stage, whose memory nobody else takes meanwhile.
void StageMemory::Ask(std::optional<std::uint64_t> stage_bytes) {
  awaits_ = true;
  stage_takes_ = 0;
  compute_->Post("memory.bound", [this, lives = lives_, pool = pool_, control = control_,
                                  order = ++order_, asked = asked_, stage_bytes] {
    Answer answer;
    const std::uint64_t takes = stage_bytes ? std::max(*stage_bytes, pool->PeakBytes()) : 0;
    if (takes > asked) {
      answer.too_large = takes;
    } else {
      answer.bytes = pool->Bound(asked);
    }
    control->Post("memory.bounded", [this, lives, order, answer] {
      if (*lives && order == order_) OnAnswer(answer);
    });
  });
}

void StageMemory::OnAnswer(const Answer& answer) {
  SHOAL_ASSERT_ON(*control_);
  trouble_.clear();
  stage_takes_ = answer.too_large;
  awaits_ = answer.too_large > 0;
  if (awaits_) {
    bytes_ = asked_;
    SHOAL_LOG(kInfo, "daemon", "memory.stage_too_large", {"limit", FormatBytes(asked_)});
    return owner_->OnStageTooLarge(asked_);
  }
  if (answer.bytes.ok()) {
    bytes_ = bound_ = *answer.bytes;
  } else {
    trouble_ = answer.bytes.status().message();
  }
  SHOAL_LOG(kInfo, "daemon", "memory.bounded", {"memory", FormatBytes(bytes_)},
            {"trouble", trouble_});
}

void StageMemory::OnStageEnds() {
  SHOAL_ASSERT_ON(*control_);
  if (pool_ == nullptr) return;
  compute_->Post("memory.forget", [pool = pool_] { pool->ForgetPeak(); });
  if (awaits_) Ask(std::nullopt);
}

std::string StageMemory::Text() const {
  SHOAL_ASSERT_ON(*control_);
  if (pool_ == nullptr || asked_ == 0) return "";
  std::string text = "device_memory " + FormatBytes(asked_);
  if (!trouble_.empty()) return text + " does not hold: " + trouble_;
  if (stage_takes_ == 0) return text;
  if (stage_takes_ == kStageIsMade) return text + ": the stage is given back first";
  return text + ": the stage took up to " + FormatBytes(stage_takes_) + " and is handed over first";
}

}  // namespace shoal::daemon
