#include "daemon/artefacts/checkpoint_saver.h"

#include <string_view>
#include <utility>

#include "common/log.h"
#include "daemon/artefacts/kept_checkpoint.h"

namespace shoal::daemon {
namespace {

constexpr std::string_view kWeightSuffix = ".safetensors";
// As many checkpoints as a scheduler has under way.
constexpr std::size_t kToldMax = 2;

control::v1::PeerMessage DoneMessage(const CheckpointSaver::Order& order) {
  control::v1::PeerMessage message;
  message.mutable_checkpoint_done()->set_generation(order.generation);
  message.mutable_checkpoint_done()->set_step(order.step);
  return message;
}

}  // namespace

CheckpointSaver::CheckpointSaver(const Parts& parts, Tell tell,
                                 std::function<std::vector<storage::ContentHash>()> needed)
    : parts_(parts), tell_(std::move(tell)), needed_(std::move(needed)) {}

CheckpointSaver::Outcome CheckpointSaver::Write(storage::CheckpointStore* checkpoints,
                                                const Order& order) {
  SHOAL_ASSIGN_OR_RETURN(const storage::Checkpoint checkpoint,
                         checkpoints->Save(order.run, order.step, order.write, order.keep));
  auto saved = std::make_shared<Saved>();
  for (const storage::StoredRun& kept : checkpoints->Runs()) saved->runs.push_back(kept.run);
  for (const storage::ArtefactRef& file : checkpoint.files) {
    if (!file.name.ends_with(kWeightSuffix)) continue;
    storage::ArtefactRef ref = file;
    ref.name.resize(ref.name.size() - kWeightSuffix.size());
    saved->files.push_back(std::move(ref));
    saved->paths.push_back(checkpoint.folder + "/" + file.name);
  }
  return saved;
}

void CheckpointSaver::Save(Order given) {
  SHOAL_ASSERT_ON(*parts_.control);
  auto order = std::make_shared<Order>(std::move(given));
  parts_.compute->Post("checkpoint.save", [this, order] {
    auto saved = std::make_shared<Outcome>(Write(parts_.checkpoints, *order));
    order->write = nullptr;
    parts_.control->Post("checkpoint.save", [this, order, saved] { OnWritten(order, *saved); });
  });
}

void CheckpointSaver::OnWritten(const std::shared_ptr<Order>& order, const Outcome& saved) {
  SHOAL_ASSERT_ON(*parts_.control);
  const auto go_on = [this, order, saved] {
    if (closed_) return;
    saved.ok() ? Link(order, *saved) : Fail(*order, saved.status());
  };
  order->written != nullptr ? std::exchange(order->written, nullptr)(go_on) : go_on();
}

// The files become blobs of the content store too (hard links): for uploads, and so that resuming
// from this checkpoint fetches nothing. Those of the checkpoint before stay, as they may be under
// way.
void CheckpointSaver::Link(const std::shared_ptr<Order>& order,
                           const std::shared_ptr<Saved>& saved) {
  SHOAL_ASSERT_ON(*parts_.control);
  std::vector<storage::ContentHash> keep = needed_();
  keep.insert(keep.end(), order->blobs.begin(), order->blobs.end());
  keep.insert(keep.end(), newest_.begin(), newest_.end());
  newest_.clear();
  for (const storage::ArtefactRef& file : saved->files) newest_.push_back(file.hash);
  keep.insert(keep.end(), newest_.begin(), newest_.end());
  parts_.store->Post("checkpoint.link", [this, order, saved, keep = std::move(keep)] {
    Status status =
        KeepCheckpoint({saved->paths, keep, saved->runs}, parts_.content, parts_.deltas);
    parts_.control->Post("checkpoint.link", [this, order, saved, status = std::move(status)] {
      OnLinked(*order, *saved, status);
    });
  });
}

void CheckpointSaver::OnLinked(const Order& order, const Saved& saved, const Status& status) {
  SHOAL_ASSERT_ON(*parts_.control);
  if (closed_) return;
  if (!status.ok()) return Fail(order, status);
  control::v1::PeerMessage message = DoneMessage(order);
  for (const storage::ArtefactRef& file : saved.files) {
    control::v1::ArtefactRef* const ref = message.mutable_checkpoint_done()->add_files();
    ref->set_name(file.name);
    ref->set_hash(file.hash.digest.data(), file.hash.digest.size());
    ref->set_size(file.size);
  }
  told_.push_back({order.run, message});
  if (told_.size() > kToldMax) told_.pop_front();
  tell_(std::move(message));
  if (order.told != nullptr) order.told(true);
}

void CheckpointSaver::Fail(const Order& order, const Status& status) {
  SHOAL_ASSERT_ON(*parts_.control);
  SHOAL_LOG(kError, "daemon", "checkpoint.failed", {"step", order.step},
            {"error", status.ToString()});
  control::v1::PeerMessage message = DoneMessage(order);
  message.mutable_checkpoint_done()->set_error(status.ToString());
  tell_(std::move(message));
  if (order.told != nullptr) order.told(false);
}

void CheckpointSaver::TellAgain(RunId run) {
  SHOAL_ASSERT_ON(*parts_.control);
  for (const Told& told : told_) {
    if (told.run == run) tell_(told.message);
  }
}

}  // namespace shoal::daemon
