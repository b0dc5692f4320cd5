#include "pipeline/delta_stage.h"

#include <memory>

#include "common/trace.h"
#include "pipeline/inventory.h"

namespace shoal::pipeline {
namespace {

struct Fetched {
  Status status;
  DeltaStage::Records records;
  double ms = 0;
};

// A record of another shape (the run's rows changed) or with a broken image counts as missing.
bool Usable(const compression::MessageCodec& codec, const storage::DeltaRecord& record,
            compression::SampleShape shape) {
  return record.version != 0 && record.tokens == shape.tokens && record.hidden == shape.hidden &&
         codec.CheckMImage(record.image.bytes(), shape).ok();
}

struct Committed {
  Status status;
  std::uint64_t checksum = 0;
  std::uint64_t records = 0;
  std::vector<SampleId> evicted;
  double ms = 0;
};

Committed CommitNow(storage::DeltaStore* store, const storage::DeltaPlace& place,
                    const std::vector<storage::DeltaUpdate>& updates) {
  Committed result;
  result.status = store->Commit(place, updates, &result.evicted);
  if (!result.status.ok()) return result;
  const Result<std::uint64_t> checksum = store->PlaceChecksum(place);
  result.status = checksum.ok() ? Status::Ok() : checksum.status();
  if (checksum.ok()) result.checksum = *checksum;
  result.records = updates.size();
  return result;
}

}  // namespace

void DeltaStage::ReadInventory(std::function<void(Inventory)> done) {
  auto read = [store = core_->deps.delta_store, place = place_] { return store->Inventory(place); };
  core_->scope.Run(core_->deps.store, "delta.inventory", std::move(read),
                   [this, done](Result<Inventory> inventory) {
                     if (!inventory.ok()) {
                       return core_->fail(inventory.status().WithContext("delta store"), nullptr);
                     }
                     done(std::move(*inventory));
                   });
}

void DeltaStage::Agree(Inventory own, Inventory theirs, std::function<void()> done) {
  auto agree = [store = core_->deps.delta_store, place = place_, own = std::move(own),
                theirs = std::move(theirs)] {
    const std::vector<SampleId> differing = Disagreeing(own, theirs);
    return differing.empty() ? Status::Ok() : store->Drop(place, differing, UINT64_MAX);
  };
  core_->scope.Run(core_->deps.store, "delta.agree", std::move(agree), [this, done](Status status) {
    if (!status.ok()) return core_->fail(status.WithContext("delta store"), nullptr);
    done();
  });
}

void DeltaStage::Prefetch(MicroBatchId id, std::vector<SampleId> samples,
                          std::function<void(Records)> done) {
  auto fetch = [store = core_->deps.delta_store, place = place_, shape = core_->shape(), id,
                codec = core_->forward_codec, samples = std::move(samples),
                clock = &core_->deps.control->clock()] {
    const TimePoint start = clock->Now();
    const TimePoint traced = SystemClock().Now();
    Fetched fetched;
    for (const SampleId sample : samples) {
      Result<std::optional<storage::DeltaRecord>> record = store->Get(place, sample);
      if (!record.ok()) {
        fetched.status = record.status();
        return fetched;
      }
      if (record->has_value() && !Usable(*codec, **record, shape)) record->reset();
      fetched.records.push_back(std::move(*record));
    }
    fetched.ms = Milliseconds(clock->Now() - start);
    TraceSpan("delta.prefetched", id, traced);
    return fetched;
  };
  core_->scope.Run(core_->deps.store, "delta.prefetch", std::move(fetch),
                   [this, done](Fetched fetched) {
                     if (!fetched.status.ok()) {
                       return core_->fail(fetched.status.WithContext("delta store"), nullptr);
                     }
                     core_->stats.store_ms += fetched.ms;
                     done(std::move(fetched.records));
                   });
}

void DeltaStage::Stage(MicroBatchId id, SampleId sample, MImage image) {
  Staged& staged = staged_[sample];
  const std::pair order(id.index, image.position);
  if (!staged.image.image.empty() && order < staged.order) return;
  staged = {order, std::move(image)};
}

void DeltaStage::Commit(std::uint64_t step,
                        std::function<void(PlaceChecksum, std::vector<SampleId>)> done) {
  std::vector<storage::DeltaUpdate> updates;
  updates.reserve(staged_.size());
  for (auto& [sample, staged] : staged_) {
    storage::DeltaRecord record;
    record.version = step + 1;
    record.checksum = staged.image.checksum;
    record.tokens = core_->config.row_tokens;
    record.hidden = core_->config.hidden;
    record.image = std::move(staged.image.image);
    updates.push_back({sample, std::move(record)});
  }
  staged_.clear();
  auto commit = [store = core_->deps.delta_store, place = place_, updates = std::move(updates),
                 step, clock = &core_->deps.control->clock()] {
    const TimePoint start = clock->Now();
    const TimePoint traced = SystemClock().Now();
    Committed committed = CommitNow(store, place, updates);
    committed.ms = Milliseconds(clock->Now() - start);
    TraceSpan("delta.committed", {step, 0}, traced);
    return committed;
  };
  core_->scope.Run(core_->deps.store, "delta.commit", std::move(commit),
                   [this, done](Committed committed) {
                     if (!committed.status.ok()) {
                       return core_->fail(committed.status.WithContext("delta store"), nullptr);
                     }
                     core_->stats.store_ms += committed.ms;
                     done({place_.boundary, place_.side, committed.checksum, committed.records},
                          std::move(committed.evicted));
                   });
}

void DeltaStage::Drop(std::vector<SampleId> samples) {
  auto drop = [store = core_->deps.delta_store, place = place_, samples = std::move(samples)] {
    return store->Drop(place, samples, UINT64_MAX);
  };
  core_->scope.Run(core_->deps.store, "delta.drop", std::move(drop), [this](Status status) {
    if (!status.ok()) core_->fail(status.WithContext("delta store"), nullptr);
  });
}

}  // namespace shoal::pipeline
