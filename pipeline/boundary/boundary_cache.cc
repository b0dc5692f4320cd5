#include "pipeline/boundary/boundary_cache.h"

#include <algorithm>
#include <memory>

#include "common/trace.h"
#include "pipeline/core/inventory.h"

namespace shoal::pipeline {
namespace {

// Micro-batches prefetched, whatever their size.
constexpr std::size_t kAheadMax = 16;
// Steps that the other end may have committed before us.
constexpr std::size_t kTheirStepsMax = 64;

struct Fetched {
  BoundaryCache::Records records;
  double ms = 0;
};

// A record of another shape (the run's rows changed) or with a broken image counts as missing.
bool Usable(const compression::MessageCodec& codec, const storage::DeltaRecord& record,
            compression::SampleShape shape) {
  return record.version != 0 && record.tokens == shape.tokens && record.hidden == shape.hidden &&
         codec.CheckMImage(record.image.bytes(), shape).ok();
}

}  // namespace

void BoundaryCache::ReadInventory(std::function<void(Inventory)> done) {
  SHOAL_ASSERT_ON(generation_->control());
  auto read = [store = resources_.delta_store, end = config_.end] { return store->Inventory(end); };
  generation_->scope().Run(
      resources_.store, "delta.inventory", std::move(read),
      [this, done](Result<Inventory> inventory) {
        if (!inventory.ok()) {
          return generation_->Fail(inventory.status().WithContext("delta store"));
        }
        done(std::move(*inventory));
      });
}

void BoundaryCache::Agree(Inventory own, Inventory theirs, std::function<void()> done) {
  SHOAL_ASSERT_ON(generation_->control());
  auto agree = [store = resources_.delta_store, end = config_.end, own = std::move(own),
                theirs = std::move(theirs)] {
    const std::vector<SegmentId> differing = Disagreeing(own, theirs);
    return differing.empty() ? Status::Ok() : store->Drop(end, differing, UINT64_MAX);
  };
  generation_->scope().Run(resources_.store, "delta.agree", std::move(agree),
                           [this, done](Status status) {
                             if (!status.ok())
                               return generation_->Fail(status.WithContext("delta store"));
                             done();
                           });
  agreed_ = true;
  for (auto& [key, wanted] : wanted_) IssueReads(key, &wanted);
}

// ---- reading ----

void BoundaryCache::PlanPrefetch(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  std::set<SegmentId>& all = uncommitted_[plan.step];
  std::uint32_t transfer = 0;
  for (const MicroBatchPlan& micro_batch : plan.micro_batches) {
    for (std::uint32_t segment = 0; segment < config_.segments.count; ++segment) {
      std::vector<SegmentId> ids = config_.segments.IdsOf(micro_batch.samples, segment);
      all.insert(ids.begin(), ids.end());
      planned_.emplace_back(WantedKey(plan.step, transfer++), std::move(ids));
    }
  }
  OpenPrefetches();
}

void BoundaryCache::ExtendPlan(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  std::set<SegmentId>& all = uncommitted_[plan.step];
  for (const MicroBatchPlan& micro_batch : plan.micro_batches) {
    for (std::uint32_t segment = 0; segment < config_.segments.count; ++segment) {
      const std::vector<SegmentId> ids = config_.segments.IdsOf(micro_batch.samples, segment);
      all.insert(ids.begin(), ids.end());
    }
  }
}

bool BoundaryCache::Blocked(std::uint64_t step, SegmentId id) const {
  for (auto at = uncommitted_.begin(); at != uncommitted_.end() && at->first < step; ++at) {
    if (at->second.contains(id)) return true;
  }
  return false;
}

std::size_t BoundaryCache::PrefetchRoom() const {
  const std::size_t bytes =
      config_.micro_batch_rows * config_.codec->MImageBytes(config_.segments.shape);
  // One micro-batch is always allowed: else a step would begin by waiting.
  const std::size_t most = std::clamp<std::size_t>(
      config_.prefetch_bytes / bytes, config_.segments.count, kAheadMax * config_.segments.count);
  return most - std::min(most, ahead_);
}

void BoundaryCache::OpenPrefetches() {
  while (!planned_.empty() && PrefetchRoom() > 0) {
    auto [key, ids] = std::move(planned_.front());
    planned_.pop_front();
    ++ahead_;
    IssueReads(key, &Open(key, std::move(ids)));
  }
}

BoundaryCache::Wanted& BoundaryCache::Open(WantedKey key, std::vector<SegmentId> ids) {
  Wanted& wanted = wanted_[key];
  wanted.states.assign(ids.size(), ReadState::kLater);
  wanted.records.resize(ids.size());
  wanted.left = ids.size();
  wanted.ids = std::move(ids);
  return wanted;
}

void BoundaryCache::Prefetch(MicroBatchId id, std::uint32_t segment,
                             const std::vector<SampleId>& samples,
                             std::function<void(Records)> done) {
  SHOAL_ASSERT_ON(generation_->control());
  const WantedKey key(id.step, config_.segments.Transfer(id.index, segment));
  auto found = wanted_.find(key);
  if (found == wanted_.end()) {
    while (!planned_.empty() && planned_.front().first <= key) planned_.pop_front();
    Open(key, config_.segments.IdsOf(samples, segment));
    found = wanted_.find(key);
  } else {
    --ahead_;
  }
  found->second.done = std::move(done);
  IssueReads(key, &found->second);
  OpenPrefetches();
  Finish(key);
}

void BoundaryCache::IssueReads(WantedKey key, Wanted* wanted) {
  if (!agreed_) return;
  std::vector<std::size_t> positions;
  std::vector<SegmentId> ids;
  for (std::size_t i = 0; i < wanted->ids.size(); ++i) {
    if (wanted->states[i] != ReadState::kLater || Blocked(key.first, wanted->ids[i])) continue;
    wanted->states[i] = ReadState::kReading;
    positions.push_back(i);
    ids.push_back(wanted->ids[i]);
  }
  if (ids.empty()) return;
  const bool last = positions.size() == wanted->left;
  auto fetch = [store = resources_.delta_store, end = config_.end, codec = config_.codec,
                segments = config_.segments, key, last, ids = std::move(ids),
                clock = &generation_->clock()] {
    const TimePoint start = clock->Now();
    const TimePoint traced = TraceStart();
    Fetched fetched;
    for (const SegmentId id : ids) {
      // The store says in its own status why it cannot read; here it is a first visit.
      Result<std::optional<storage::DeltaRecord>> record = store->Get(end, id);
      if (!record.ok() || (record->has_value() && !Usable(*codec, **record, segments.shape))) {
        fetched.records.emplace_back();
      } else {
        fetched.records.push_back(std::move(*record));
      }
    }
    fetched.ms = Milliseconds(clock->Now() - start);
    if (last) {
      TraceSpan("delta.prefetched", {key.first, segments.MicroBatch(key.second)}, traced,
                segments.Segment(key.second));
    }
    return fetched;
  };
  ++reading_;
  generation_->scope().Run(resources_.store, "delta.prefetch", std::move(fetch),
                           [this, key, positions = std::move(positions)](Fetched fetched) {
                             resources_.stats->store_ms += fetched.ms;
                             OnRead(key, positions, std::move(fetched.records));
                           });
}

void BoundaryCache::OnRead(WantedKey key, const std::vector<std::size_t>& positions,
                           Records records) {
  Wanted& wanted = wanted_.at(key);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t position = positions[i];
    const auto forgotten = forgotten_.find(wanted.ids[position]);
    if (forgotten != forgotten_.end() && records[i] && records[i]->version <= forgotten->second) {
      records[i].reset();
    }
    if (records[i]) resources_.stats->prefetch_bytes += records[i]->image.size();
    wanted.records[position] = std::move(records[i]);
    wanted.states[position] = ReadState::kRead;
  }
  wanted.left -= positions.size();
  if (--reading_ == 0) forgotten_.clear();
  Finish(key);
}

// Hands a transfer out that was asked for and is complete.
void BoundaryCache::Finish(WantedKey key) {
  const auto found = wanted_.find(key);
  if (found == wanted_.end() || found->second.left > 0 || !found->second.done) return;
  Wanted wanted = std::move(found->second);
  wanted_.erase(found);
  for (const auto& record : wanted.records) {
    if (record) resources_.stats->prefetch_bytes -= record->image.size();
  }
  wanted.done(std::move(wanted.records));
}

// m of these samples up to `version` is gone at one end: what was read of it must not be built on.
void BoundaryCache::Forget(const std::vector<SegmentId>& ids, std::uint64_t version) {
  if (ids.empty()) return;
  const std::set<SegmentId> gone(ids.begin(), ids.end());
  for (auto& [key, wanted] : wanted_) {
    for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
      std::optional<storage::DeltaRecord>& record = wanted.records[i];
      if (!record || record->version > version || !gone.contains(wanted.ids[i])) continue;
      resources_.stats->prefetch_bytes -= record->image.size();
      record.reset();
    }
  }
  if (reading_ == 0) return;
  for (const SegmentId id : gone) {
    std::uint64_t& up_to = forgotten_[id];
    up_to = std::max(up_to, version);
  }
}

// ---- committing ----

void BoundaryCache::Stage(MicroBatchId id, std::uint32_t segment, SampleId sample, MImage image) {
  SHOAL_ASSERT_ON(generation_->control());
  const SegmentId segment_id = config_.segments.IdOf(sample, segment);
  const Order order(config_.segments.Transfer(id.index, segment), image.position);
  const auto [staged, is_new] = staged_.try_emplace(segment_id, order);
  if (!is_new && order < staged->second) return;
  staged->second = order;
  staged_version_ = id.step + 1;
  const std::uint64_t bytes = image.image.size();
  resources_.stats->staged_bytes += bytes;
  storage::DeltaUpdate update;
  update.segment = segment_id;
  update.record = {staged_version_, image.checksum, config_.segments.shape.tokens,
                   config_.segments.shape.hidden, std::move(image.image)};
  auto write = [store = resources_.delta_store, end = config_.end, update = std::move(update),
                clock = &generation_->clock()] {
    const TimePoint start = clock->Now();
    Status status = store->Stage(end, update);
    return StoreWrite{std::move(status), {}, Milliseconds(clock->Now() - start)};
  };
  // m of a step that is applied is kept, whatever ends the generation.
  generation_->scope().RunToEnd(resources_.store, "delta.stage", std::move(write),
                                [this, bytes](StoreWrite written) {
                                  resources_.stats->staged_bytes -= bytes;
                                  OnWritten(written);
                                });
}

// Whether a write succeeded; a refusing disk is no failure here.
bool BoundaryCache::OnWritten(const StoreWrite& written) {
  resources_.stats->store_ms += written.ms;
  if (!written.status.ok()) generation_->Fail(written.status.WithContext("delta store"));
  return written.status.ok();
}

void BoundaryCache::DropStaged() {
  SHOAL_ASSERT_ON(generation_->control());
  if (staged_.empty()) return;
  staged_.clear();
  auto drop = [store = resources_.delta_store, end = config_.end, version = staged_version_] {
    return StoreWrite{store->DropStaged(end, version), {}, 0};
  };
  generation_->scope().Run(resources_.store, "delta.drop_staged", std::move(drop),
                           [this](StoreWrite written) { OnWritten(written); });
}

void BoundaryCache::Commit(std::uint64_t step, CommitHandlers handlers) {
  SHOAL_ASSERT_ON(generation_->control());
  Committing commit;
  commit.step = step;
  commit.handlers = std::move(handlers);
  commit.records = staged_.size();
  staged_.clear();
  commits_.push_back(std::move(commit));
  PumpCommits();
}

void BoundaryCache::PumpCommits() {
  while (!commits_.empty()) {
    Committing& first = commits_.front();
    if (!first.begun) return PostCommit(&first);
    if (!first.stored || (shared() && !theirs_.contains(first.step))) return;
    PostSettle();
  }
}

void BoundaryCache::PostCommit(Committing* commit) {
  commit->begun = true;
  auto write = [store = resources_.delta_store, end = config_.end, step = commit->step,
                clock = &generation_->clock()] {
    const TimePoint start = clock->Now();
    const TimePoint traced = TraceStart();
    StoreWrite written;
    written.status = store->CommitStaged(end, step + 1, &written.lost);
    written.ms = Milliseconds(clock->Now() - start);
    TraceSpan("delta.committed", {step, 0}, traced);
    return written;
  };
  generation_->scope().RunToEnd(resources_.store, "delta.commit", std::move(write),
                                [this](StoreWrite written) {
                                  if (OnWritten(written)) Committed(std::move(written.lost));
                                });
  // What the step made is read behind its commit.
  uncommitted_.erase(uncommitted_.begin(), uncommitted_.upper_bound(commit->step));
  for (auto& [key, wanted] : wanted_) IssueReads(key, &wanted);
}

void BoundaryCache::Committed(std::vector<SegmentId> lost) {
  Committing& commit = commits_.front();
  Forget(lost, commit.step + 1);
  commit.stored = true;
  if (shared()) commit.handlers.on_stored(std::move(lost));
  PumpCommits();
}

void BoundaryCache::PostSettle() {
  const Committing commit = std::move(commits_.front());
  commits_.pop_front();
  std::vector<SegmentId> theirs;
  if (shared()) theirs = std::move(theirs_.extract(commit.step).mapped());
  Forget(theirs, commit.step + 1);
  auto settle = [store = resources_.delta_store, end = config_.end, version = commit.step + 1,
                 theirs = std::move(theirs)]() -> Result<std::uint64_t> {
    SHOAL_RETURN_IF_ERROR(store->Drop(end, theirs, version));
    return store->ChecksumOf(end);
  };
  generation_->scope().Run(
      resources_.store, "delta.settle", std::move(settle),
      [this, records = commit.records,
       settled = commit.handlers.on_settled](Result<std::uint64_t> checksum) {
        if (!checksum.ok()) {
          return generation_->Fail(checksum.status().WithContext("delta store"));
        }
        settled({config_.end.boundary, config_.end.side, *checksum, records});
      });
}

Status BoundaryCache::OnTheirLosses(std::uint64_t step, std::vector<SegmentId> ids) {
  SHOAL_ASSERT_ON(generation_->control());
  if (step != their_next_) {
    return InvalidArgument("losses of step " + std::to_string(step) + " came while those of step " +
                           std::to_string(their_next_) + " are next");
  }
  if (theirs_.size() >= kTheirStepsMax) {
    return ResourceExhausted("losses of m for too many later steps");
  }
  ++their_next_;
  theirs_[step] = std::move(ids);
  PumpCommits();
  return Status::Ok();
}

}  // namespace shoal::pipeline
