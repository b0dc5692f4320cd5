#include "scheduler/history/checkpoint_rounds.h"

#include <algorithm>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {

void CheckpointRounds::Reset(std::uint64_t step, std::vector<std::uint32_t> uploaders) {
  rounds_.clear();
  uploaders_ = std::move(uploaders);
  asked_ = step;
}

bool CheckpointRounds::full() const { return rounds_.size() >= kPendingCheckpointsMax; }

void CheckpointRounds::Begin(std::uint64_t step, std::size_t members) {
  if (full()) rounds_.erase(rounds_.begin());
  rounds_[step].uploaders = uploaders_;
  rounds_[step].members = members;
  asked_ = step;
}

bool CheckpointRounds::Uploads(std::uint64_t step, std::uint32_t pipeline,
                               std::uint32_t stage) const {
  return rounds_.at(step).uploaders[stage] == pipeline;
}

bool CheckpointRounds::AddFile(std::uint64_t step, const std::string& name,
                               const control::v1::ArtefactRef& file) {
  const auto [known, fresh] = rounds_.at(step).files.try_emplace(name, file);
  return fresh || known->second.hash() == file.hash();
}

void CheckpointRounds::AddReport(std::uint64_t step, std::uint32_t pipeline, std::uint32_t stage) {
  rounds_.at(step).reported.emplace(pipeline, stage);
}

std::optional<ArtefactMap> CheckpointRounds::TakeWhole(std::uint64_t step) {
  const auto found = rounds_.find(step);
  if (found == rounds_.end() || found->second.reported.size() < found->second.members) {
    return std::nullopt;
  }
  ArtefactMap files = std::move(found->second.files);
  rounds_.erase(rounds_.begin(), rounds_.upper_bound(step));
  return files;
}

bool CheckpointRounds::GoOnWithout(std::uint32_t pipeline) {
  const std::size_t ended = std::erase_if(rounds_, [&](const auto& round) {
    return std::ranges::count(round.second.uploaders, pipeline) > 0;
  });
  for (auto& [step, round] : rounds_) {
    std::erase_if(round.reported, [&](const auto& member) { return member.first == pipeline; });
    round.members -= std::min(round.members, round.uploaders.size());
  }
  return ended > 0;
}

bool CheckpointRounds::DropUploadedBy(std::uint32_t stage,
                                      const std::vector<std::uint32_t>& pipelines) {
  return std::erase_if(rounds_, [&](const auto& round) {
           return std::ranges::count(pipelines, round.second.uploaders[stage]) > 0;
         }) > 0;
}

}  // namespace shoal::scheduler
